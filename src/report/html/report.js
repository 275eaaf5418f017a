// Zooms, reads values off, copies. The page is complete without it; nothing is fetched.
'use strict';
(() => {
  const WIDE = 1000, HIGH = 200;
  const figures = JSON.parse(document.getElementById('figures').textContent);
  const make = (tag, name) => { const e = document.createElement(tag); e.className = name; return e; };
  const short = (v, digits) => { const t = Number(v.toFixed(digits)); return Object.is(t, -0) ? 0 : t; };

  // Numbers as the page writes them.
  function number(v) {
    if (v === 0) return '0';
    const [mantissa, exponent] = v.toExponential(5).split('e');
    const e = Number(exponent);
    const trim = (t) => t.includes('.') ? t.replace(/0+$/, '').replace(/\.$/, '') : t;
    return e >= -4 && e < 7 ? trim(v.toFixed(Math.max(0, 5 - e))) : trim(mantissa) + 'e' + e;
  }
  function grouped(step) {
    const t = String(Math.round(step));
    return t.length > 4 ? t.replace(/\B(?=(\d{3})+$)/g, '\u2009') : t;
  }
  function roundUp(v) {
    const decade = 10 ** Math.floor(Math.log10(v));
    return [1, 2, 5, 10].map((m) => m * decade).find((s) => s >= v * (1 - 1e-9)) || 10 * decade;
  }
  function linear(low, high, count) {
    const ends = (every) => [Math.ceil(low / every - 1e-9), Math.floor(high / every + 1e-9)];
    let every = roundUp((high - low) / count), [first, last] = ends(every);
    if (last - first < 2) { every = roundUp(0.3 * every); [first, last] = ends(every); }
    const decimals = Math.max(0, -Math.floor(Math.log10(every)));
    const out = [];
    for (let n = first; n <= last && n - first < 1000; n++) {
      const v = n * every;
      out.push([v, n === 0 ? '0' : decimals <= 4 && Math.abs(v) < 1e6 ? v.toFixed(decimals) : number(v)]);
    }
    return out;
  }
  function log(low, high, count) {
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const every = Math.max(1, Math.ceil((Math.log10(high) - Math.log10(low)) / count));
    const of = (parts, every) => {
      const out = [];
      for (let e = first; e <= last; e++) {
        if (e % every === 0) parts.forEach((m) => out.push(m * 10 ** e));
      }
      return out.filter((v) => v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)).map((v) => [v, number(v)]);
    };
    const whole = of([1], every);
    if (whole.length >= 3 || whole.length > count) return whole;
    return [of([1, 3], 1), of([1, 2, 5], 1)].find((t) => t.length >= 3) || linear(low, high, count);
  }

  // Steps are written as differences.
  function curve(series) {
    series.pieces = series.pieces.map((flat) => {
      const steps = [], values = [];
      let at = 0;
      for (let i = 0; i < flat.length; i += 2) { at += flat[i]; steps.push(at); values.push(flat[i + 1]); }
      return { steps, values };
    });
  }
  // First place whose step is not below.
  function lower(steps, step) {
    let a = 0, b = steps.length;
    while (a < b) { const m = (a + b) >> 1; if (steps[m] < step) a = m + 1; else b = m; }
    return a;
  }
  // The row nearest to a step, a row without a finite value too.
  function nearest(series, step) {
    let best = null;
    const take = (s, text, value) => {
      const far = Math.abs(s - step);
      if (!best || far < best.far) best = { far, step: s, text, value };
    };
    for (const p of series.pieces) {
      const i = lower(p.steps, step);
      for (const k of [i - 1, i]) if (k >= 0 && k < p.steps.length) take(p.steps[k], null, p.values[k]);
    }
    for (const o of series.off) {
      take(Math.min(Math.max(Math.round(step), o[0]), o[1]) === o[0] || o[2] === 1 ? o[0] : o[1], o[3], null);
    }
    if (best && best.text === null) best.text = number(best.value);
    return best;
  }

  class Stack {
    constructor(element, figure) {
      this.element = element;
      this.figure = figure;
      this.from = this.a = figure.from;
      this.to = this.b = figure.to;
      figure.panels.forEach((p) => p.series.forEach(curve));
      this.panels = figure.panels.map((data) => {
        const own = document.getElementById(data.id);
        return { data, own, svg: own.querySelector('svg'), values: own.querySelector('.values'), plot: own.querySelector('.plot') };
      });
      this.plots = [...element.querySelectorAll('.plot')];
      this.primary = (figure.panels.find((p) => p.series.length) || { series: [] }).series;
      element.classList.add('live');
      this.controls();
      this.pointer();
      this.signs();
    }

    controls() {
      const bar = this.element.querySelector('.controls');
      bar.hidden = false;
      const acts = {
        in: () => this.scale(0.5), out: () => this.scale(2), left: () => this.shift(-0.25), right: () => this.shift(0.25),
        reset: () => this.show(this.from, this.to),
      };
      bar.querySelectorAll('button').forEach((b) => b.addEventListener('click', acts[b.dataset.act]));
      bar.addEventListener('keydown', (e) => {
        const act = { '+': 'in', '=': 'in', '-': 'out', '0': 'reset' }[e.key];
        if (act) { acts[act](); e.preventDefault(); }
      });
      this.range = bar.querySelector('.range');
      if (!this.primary.length) return;
      this.reader = make('input', 'reader');
      Object.assign(this.reader, { type: 'range', step: 1 });
      this.reader.setAttribute('aria-label', 'Step to read values off');
      this.reader.addEventListener('input', () => this.read(this.rows[this.reader.value]));
      this.reader.addEventListener('focus', () => this.read(this.rows[this.reader.value]));
      this.reader.addEventListener('blur', () => this.forget());
      const label = document.createElement('label');
      label.append('Read off', this.reader);
      bar.append(label);
      this.list();
    }

    // The rows that can be read off with the keyboard.
    list() {
      if (!this.reader) return;
      const steps = this.primary.flatMap((s) => s.pieces.flatMap((p) => p.steps).concat(s.off.map((o) => o[0])));
      this.rows = [...new Set(steps)].filter((s) => s >= this.a && s <= this.b).sort((x, y) => x - y);
      this.reader.disabled = this.rows.length === 0;
      this.reader.min = 0;
      this.reader.max = Math.max(0, this.rows.length - 1);
      this.reader.value = this.rows.length >> 1;
      this.say();
    }

    say() {
      const step = this.rows[this.reader.value];
      if (step === undefined) return;
      const text = this.at(step).map((r) => `${r.title} ${r.text}`).join(', ');
      this.reader.setAttribute('aria-valuetext', `step ${step}: ${text}`);
    }

    pointer() {
      let start = null;
      const box = make('div', 'chosen-area');
      const share = (plot, e) => {
        const r = plot.getBoundingClientRect();
        return Math.min(1, Math.max(0, (e.clientX - r.left) / r.width));
      };
      for (const plot of this.plots) {
        plot.addEventListener('pointermove', (e) => {
          const at = share(plot, e);
          if (start !== null) {
            box.style.left = `${100 * Math.min(start, at)}%`;
            box.style.width = `${100 * Math.abs(at - start)}%`;
          }
          this.read(this.a + at * (this.b - this.a));
        });
        plot.addEventListener('pointerdown', (e) => {
          if (e.button !== 0) return;
          start = share(plot, e);
          box.style.width = '0';
          plot.append(box);
          plot.setPointerCapture(e.pointerId);
        });
        const end = (e) => {
          if (start === null) return;
          const [x, y] = [start, share(plot, e)].sort((p, q) => p - q);
          start = null;
          box.remove();
          if (e.type === 'pointerup' && y - x > 0.01) {
            const width = this.b - this.a;
            this.show(this.a + x * width, this.a + y * width);
          }
        };
        plot.addEventListener('pointerup', end);
        plot.addEventListener('pointercancel', end);
        plot.addEventListener('pointerleave', () => { if (start === null) this.forget(); });
        plot.addEventListener('dblclick', () => this.show(this.from, this.to));
      }
    }

    scale(factor) {
      const middle = (this.a + this.b) / 2, half = (this.b - this.a) * factor / 2;
      this.show(middle - half, middle + half);
    }

    shift(share) {
      const by = (this.b - this.a) * share;
      const room = by < 0 ? Math.max(by, this.from - this.a) : Math.min(by, this.to - this.b);
      this.show(this.a + room, this.b + room);
    }

    show(a, b) {
      if (this.to - this.from < 1) return;
      const least = Math.min(4, this.to - this.from);
      if (b - a < least) { const m = (a + b) / 2; a = m - least / 2; b = m + least / 2; }
      if (a < this.from) { b += this.from - a; a = this.from; }
      if (b > this.to) { a -= b - this.to; b = this.to; }
      this.a = Math.max(a, this.from);
      this.b = Math.min(b, this.to);
      this.forget();
      this.draw();
      this.list();
      const whole = this.a === this.from && this.b === this.to;
      this.range.textContent = whole ? '' : `steps ${Math.ceil(this.a)} to ${Math.floor(this.b)}`;
    }

    x(step) { return (step - this.a) / (this.b - this.a); }

    draw() {
      for (const p of this.panels) if (!p.data.tops) this.panel(p);
      const scale = (this.to - this.from) / (this.b - this.a);
      const move = this.x(this.from) * WIDE;
      this.element.querySelectorAll('.stretch').forEach((g) => g.setAttribute('transform', `translate(${short(move, 3)} 0) scale(${short(scale, 6)} 1)`));
      this.marks();
      this.axis();
    }

    // Lowest and highest value in sight, with some room.
    sight(data) {
      if (this.a === this.from && this.b === this.to) return [data.low, data.high];
      let low = Infinity, high = -Infinity;
      const take = (v) => { if (!data.log || v > 0) { low = Math.min(low, v); high = Math.max(high, v); } };
      for (const s of data.series) {
        for (const p of s.pieces) {
          const end = Math.min(p.steps.length, lower(p.steps, this.b) + 1);
          for (let i = Math.max(0, lower(p.steps, this.a) - 1); i < end; i++) take(p.values[i]);
        }
      }
      for (const b of data.band || []) if (b[0] >= this.a && b[0] <= this.b) { take(b[2]); take(b[3]); }
      if (low > high) return [data.low, data.high];
      if (data.log) {
        const room = Math.max(0.02, Math.log10(high / low) * 0.06);
        return [low / 10 ** room, high * 10 ** room];
      }
      const room = high - low > Math.abs(high) * 1e-9 ? (high - low) * 0.06 : Math.abs(high) * 0.1 || 1;
      return [low - room, high + room];
    }

    panel(p) {
      const data = p.data;
      const [low, high] = this.sight(data);
      const f = data.log ? Math.log10 : (v) => v;
      const y = (v) => short((1 - (f(v) - f(low)) / (f(high) - f(low))) * HIGH, 2);
      const x = (s) => short(this.x(s) * WIDE, 2);
      const set = (name, d) => { const e = p.svg.querySelector(name); if (e) e.setAttribute('d', d); };
      data.series.forEach((s, n) => {
        set(`.line[data-s="${n}"]`, s.pieces.filter((piece) => piece.steps.length > 1).map((piece) => this.piece(piece, data.stepped, x, y)).join(''));
        const alone = s.pieces.filter(({ steps: [step], steps }) => steps.length === 1 && step >= this.a && step <= this.b);
        set(`.alone[data-s="${n}"]`, alone.map((piece) => `M${x(piece.steps[0])} ${y(piece.values[0])}h0`).join(''));
        const off = s.off.filter((o) => o[1] >= this.a && o[0] <= this.b);
        set(`.off[data-s="${n}"]`, off.map((o) => `M${x(o[0])} ${o[4] ? 0 : HIGH - 14}v14`).join(''));
      });
      if (data.band) {
        const at = (b, n) => `${x(b[0])} ${y(data.log ? Math.max(b[n], low / 10) : b[n])}`;
        const up = data.band.map((b) => at(b, 3)), down = data.band.map((b) => at(b, 2)).reverse();
        set('.band', `M${up.concat(down).join('L')}z`);
        set('.level', `M${data.band.map((b) => at(b, 1)).join('L')}`);
      }
      set('.knot', data.knots.map((k) => `M${x(k[0])} ${y(k[1])}h0`).join(''));
      const ticks = data.series.some((s) => s.pieces.length) ? (data.log ? log : linear)(low, high, 4) : [];
      set('.grid', ticks.map((t) => `M0 ${y(t[0])}h${WIDE}`).join(''));
      p.values.replaceChildren(...ticks.map((t) => {
        const e = make('span', '');
        e.style.top = `${y(t[0]) / HIGH * 100}%`;
        e.textContent = t[1];
        return e;
      }));
    }

    // What is in sight of a piece, and one point to either side.
    piece(piece, stepped, x, y) {
      const first = Math.max(0, lower(piece.steps, this.a) - 1);
      const end = Math.min(piece.steps.length, lower(piece.steps, this.b) + 2);
      let d = '';
      for (let i = first; i < end; i++) {
        const [px, py] = [x(piece.steps[i]), y(piece.values[i])];
        d += i === first ? `M${px} ${py}` : stepped ? `H${px}V${py}` : `L${px} ${py}`;
      }
      return end - first === 1 ? `${d}h0` : d;
    }

    marks() {
      const kinds = {};
      for (const [kind, from, to] of this.figure.marks) {
        const [a, b] = [this.x(from), this.x(to)];
        if (b < 0 || a > 1) continue;
        const at = short(Math.max(-1, a) * WIDE, 2), width = Math.max(2, short((Math.min(2, b) - Math.max(-1, a)) * WIDE, 2));
        const area = kind === 'skip' || kind === 'incident';
        kinds[kind] = (kinds[kind] || '') + (area ? `M${at} 0h${width}v${HIGH}h-${width}z` : `M${at} 0v${HIGH}`);
      }
      for (const path of this.element.querySelectorAll('.mark')) path.setAttribute('d', kinds[path.classList[1]] || '');
      this.signs();
    }

    // Signs in rows, so that none hides another; what has no room is hidden unless it must be seen.
    signs() {
      const strip = this.element.querySelector('.strip'), wide = strip.clientWidth, most = Number(strip.dataset.lanes);
      const all = [...strip.children].map((e) => {
        const [a, b] = [this.x(Number(e.dataset.from)), this.x(Number(e.dataset.to))];
        e.hidden = b < 0 || a > 1;
        const end = e.classList.contains('incident') ? Math.max(0, a) : Math.min(1, b);
        return { e, place: (Math.max(0, a) + end) / 2 };
      }).filter((s) => !s.e.hidden).sort((s, t) => s.place - t.place);
      for (const s of all) s.half = s.e.offsetWidth / 2 + 3;
      const ends = [];
      for (const { e, place, half } of all) {
        let lane = ends.findIndex((end) => end <= place * wide - half);
        if (lane < 0 && ends.length < most) lane = ends.length;
        if (lane < 0 && 'must' in e.dataset) lane = most - 1;
        e.hidden = lane < 0;
        if (e.hidden) continue;
        ends[lane] = place * wide + half;
        e.style.left = `${100 * place}%`;
        e.style.top = `${short(1.1 * lane, 1)}rem`;
      }
      // It does not shrink while one zooms: what is below would move away from under the pointer.
      this.lanes = Math.max(this.lanes || 1, ends.length);
      strip.style.height = `${short(1.1 * this.lanes + 0.1, 1)}rem`;
    }

    axis() {
      const bar = this.element.querySelector('.axis');
      const every = Math.max(1, roundUp((this.b - this.a) / 7));
      const out = [];
      for (let s = Math.ceil(this.a / every) * every; s <= this.b; s += every) {
        const e = make('span', out.length % 2 ? 'odd' : '');
        e.style.left = `${100 * this.x(s)}%`;
        e.textContent = grouped(s);
        out.push(e);
      }
      bar.replaceChildren(...out, bar.querySelector('.name'));
    }

    // The row nearest to a step: of the line, or of a branch where the line is not near.
    row(step) {
      const found = this.primary.map((s) => nearest(s, step)).filter(Boolean);
      const line = found.length && this.primary[0].role === 'value' ? found[0] : null;
      if (line && line.far <= (this.b - this.a) / 200) return line;
      return found.sort((x, y) => x.far - y.far)[0];
    }

    // What the log has at a step, a list for each panel: its name, the value of the line, and those of branches.
    at(step) {
      const far = Math.max(1, (this.to - this.from) / 100);
      return this.panels.map(({ data }) => {
        const out = { title: data.title, text: '\u2013', branches: {} };
        if (data.tops) {
          const n = lower(data.tops.map((t) => t[0]), step + 1) - 1;
          if (n >= 0) out.text = `${number(data.tops[n][1])} (layer ${data.tops[n][2]})`;
          out.title = data.title.replace(/ by layer$/, ', highest layer');
          return out;
        }
        for (const s of data.series) {
          const found = nearest(s, step);
          if (!found || found.far > far) continue;
          if (s.role === 'value') out.text = found.step === step ? found.text : `${found.text} (${found.step})`;
          else if (found.step === step) out.branches[s.name] = found.text;
        }
        return out;
      });
    }

    // The step and its values as a table; branches are columns, as far as there is room.
    table(step) {
      const rows = this.at(step), table = make('table', '');
      const names = [...new Set(rows.flatMap((r) => Object.keys(r.branches)))].slice(0, this.element.offsetWidth > 700 ? 4 : 1);
      const put = (first, rest) => {
        const tr = table.insertRow(), th = document.createElement('th');
        th.scope = 'row';
        th.textContent = first;
        tr.append(th);
        for (const text of rest) tr.insertCell().textContent = text;
      };
      put('step', [grouped(step), ...names]);
      for (const r of rows) put(r.title, [r.text, ...names.map((n) => r.branches[n] || '')]);
      return table;
    }

    read(step) {
      const row = step === undefined ? null : this.row(step);
      if (!row) return;
      const left = this.x(row.step);
      if (!this.tip) {
        this.tip = make('div', 'tip');
        this.tip.setAttribute('role', 'presentation');
        this.element.append(this.tip);
        this.cursors = this.plots.map((plot) => { const c = make('div', 'cursor'); plot.append(c); return c; });
      }
      this.tip.hidden = left < 0 || left > 1;
      this.cursors.forEach((c) => { c.hidden = this.tip.hidden; c.style.left = `${100 * left}%`; });
      this.tip.replaceChildren(this.table(row.step));
      this.tip.dataset.step = row.step;
      this.place(left);
      if (document.activeElement === this.reader) this.say();
    }

    // Beside the line, on the side that has room.
    place(left) {
      const stack = this.element.getBoundingClientRect(), plot = this.plots[0].getBoundingClientRect();
      const at = plot.left - stack.left + left * plot.width, width = this.tip.offsetWidth;
      const right = at + 14 + width <= stack.width;
      this.tip.style.left = `${Math.max(0, right ? at + 14 : at - 14 - width)}px`;
      this.tip.style.top = `${plot.top - stack.top + 8}px`;
    }

    forget() {
      if (!this.tip) return;
      this.tip.hidden = true;
      this.cursors.forEach((c) => { c.hidden = true; });
    }
  }

  const stacks = [...document.querySelectorAll('.stack')].map((e) => new Stack(e, figures[e.dataset.figure]));

  document.querySelectorAll('[data-copy]').forEach((button) => {
    button.hidden = false;
    button.setAttribute('aria-live', 'polite');
    button.addEventListener('click', () => {
      const source = document.getElementById(button.dataset.copy);
      const done = () => { button.textContent = 'Copied'; setTimeout(() => { button.textContent = 'Copy'; }, 2000); };
      const select = () => {
        const range = document.createRange();
        range.selectNodeContents(source);
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        // Pages from a disk may not have the clipboard: the old way, and if that fails the text is selected.
        if (document.execCommand('copy')) done(); else button.textContent = 'Selected';
      };
      if (navigator.clipboard) navigator.clipboard.writeText(source.textContent).then(done, select); else select();
    });
  });

  addEventListener('resize', () => stacks.forEach((s) => { s.lanes = 0; s.signs(); }));

  // On paper everything is to be seen.
  addEventListener('beforeprint', () => {
    stacks.forEach((s) => s.show(s.from, s.to));
    document.querySelectorAll('details:not([open])').forEach((d) => { d.open = true; d.dataset.closed = ''; });
  });
  addEventListener('afterprint', () => {
    document.querySelectorAll('details[data-closed]').forEach((d) => { d.open = false; delete d.dataset.closed; });
  });
})();
