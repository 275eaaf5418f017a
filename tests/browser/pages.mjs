// What a reader does with the pages of the bundled runs, in a browser without a network.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

const target = process.env.BROWSER_TARGET;
const require = createRequire(join(target, 'package.json'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const WIDTHS = [1400, 800, 380];
const pages = readdirSync(join(target, 'pages')).filter((f) => f.endsWith('.html')).map((f) => f.slice(0, -5));
assert.ok(pages.length >= 7, 'the bundled runs have pages');

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});

let tests = 0;
// Opens a page, hands it on, and holds that it was quiet and asked for nothing.
async function open(name, options, use) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, ...options });
  const page = await context.newPage();
  const url = `file://${join(target, 'pages', `${name}.html`)}`;
  const heard = [];
  page.on('console', (m) => heard.push(`console: ${m.text()}`));
  page.on('pageerror', (e) => heard.push(`error: ${e.message}`));
  page.on('request', (r) => { if (r.url() !== url) heard.push(`request: ${r.url()}`); });
  await page.goto(url);
  try {
    await use(page);
  } catch (e) {
    e.message = `${name}: ${e.message}`;
    throw e;
  }
  assert.deepEqual(heard, [], name);
  await context.close();
  tests += 1;
}

// Rows of a log of JSON lines by step: all attempts' values.
function log(name) {
  const path = join('fixtures/runs', name, 'log.jsonl.gz');
  if (!existsSync(path)) return null;
  const rows = new Map();
  // The log writes NaN as no JSON does.
  const text = gunzipSync(readFileSync(path)).toString().replace(/\b(NaN|-?Infinity)\b/g, 'null');
  for (const line of text.trim().split('\n')) {
    const row = JSON.parse(line);
    rows.set(row.step, [...(rows.get(row.step) || []), row]);
  }
  return rows;
}

const plain = (text) => Number(text.replace(/\u2009/g, ''));
// The tooltip as step and values by name.
async function tip(stack) {
  const rows = await stack.locator('.tip tr').evaluateAll((all) => all.map((r) => [r.cells[0].textContent, r.cells[1].textContent]));
  return { step: plain(rows[0][1]), values: new Map(rows.slice(1)) };
}
function agrees(rows, read, title, field) {
  const text = read.values.get(title);
  if (text === undefined || text === '\u2013') return false;
  const [value, step] = text.match(/^(\S+)(?: \((\d+)\))?$/).slice(1);
  const logged = rows.get(step === undefined ? read.step : Number(step)).map((r) => r[field]);
  const fits = logged.some((v) => v === null ? /NaN|inf/.test(value) : Math.abs(v - Number(value)) <= 1e-5 * Math.abs(v));
  assert.ok(fits, `step ${read.step}, ${title}: ${text} is not among ${logged}`);
  return true;
}

// Every page at every width in both themes: quiet, no sideways scrolling, nothing serious or critical for axe.
for (const name of pages) {
  for (const colorScheme of ['light', 'dark']) {
    for (const width of WIDTHS) {
      await open(name, { colorScheme, viewport: { width, height: 900 } }, async (page) => {
        const [wide, inner] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
        assert.ok(wide <= inner, `at ${width} the page is ${wide} wide`);
        await page.screenshot({ path: join(target, `${name}-${colorScheme}-${width}.png`), fullPage: true });
        // The policy of the page lets no script in: this one comes from outside of it.
        await page.evaluate(axe);
        const found = await page.evaluate(() => globalThis.axe.run());
        const bad = found.violations.filter((v) => ['serious', 'critical'].includes(v.impact));
        const told = bad.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 120)} ${n.failureSummary}`).join('; ')}`);
        assert.deepEqual(told, [], `axe, ${colorScheme}, ${width}`);
      });
    }
  }
}

// What is read off agrees with the log, in every stack, by pointer and by keyboard.
for (const name of pages) {
  const rows = log(name);
  if (!rows) continue;
  await open(name, {}, async (page) => {
    let read = 0;
    for (const stack of await page.locator('.stack').all()) {
      const plot = stack.locator('.plot').first();
      await plot.scrollIntoViewIfNeeded();
      const box = await plot.boundingBox();
      for (const share of [0.02, 0.2, 0.37, 0.5, 0.63, 0.8, 0.98]) {
        await page.mouse.move(box.x + share * box.width, box.y + box.height / 2);
        const at = await tip(stack);
        read += agrees(rows, at, 'Loss', 'loss');
        read += agrees(rows, at, 'Gradient norm', 'grad_norm');
      }
      await page.mouse.move(0, 0);
      assert.ok(await stack.locator('.tip').isHidden(), 'the tooltip goes with the pointer');
      const reader = stack.locator('.reader');
      await reader.focus();
      await page.keyboard.press('ArrowRight');
      const text = await reader.getAttribute('aria-valuetext');
      const [, step, loss] = text.match(/^step (\d+): Loss ([^\s,]+)/);
      assert.ok(rows.get(Number(step)).some((r) => r.loss === null || Math.abs(r.loss - Number(loss)) <= 1e-5 * r.loss), text);
      await reader.blur();
    }
    assert.ok(read >= 14, 'values were read off');
  });
}

// Zoom by button, keyboard and drag; the pictures follow, and the way back leads to the whole.
await open('bad-data', {}, async (page) => {
  const stack = page.locator('#i1');
  const axis = () => stack.locator('.axis span:not(.name)').allTextContents().then((t) => t.map(plain));
  const line = () => stack.locator('#i1-loss .line.value').getAttribute('d');
  const range = () => stack.locator('.range').textContent();
  await stack.locator('.controls').scrollIntoViewIfNeeded();
  const whole = await axis(), drawn = await line();
  await stack.getByRole('button', { name: 'Zoom in' }).click();
  const near = await axis();
  assert.ok(near.at(-1) - near[0] < whole.at(-1) - whole[0], `${near} is nearer than ${whole}`);
  assert.notEqual(await line(), drawn);
  assert.match(await range(), /^steps \d+ to \d+$/);
  const before = await range();
  await stack.getByRole('button', { name: 'Earlier steps' }).press('Enter');
  assert.notEqual(await range(), before);
  await page.keyboard.press('+');
  await page.keyboard.press('0');
  assert.equal(await range(), '');
  assert.deepEqual(await axis(), whole);
  await stack.getByRole('button', { name: 'Zoom out' }).press('Space');
  assert.equal(await range(), '', 'nothing is further out than the whole');

  const plot = stack.locator('.plot').first();
  const box = await plot.boundingBox();
  await page.mouse.move(box.x + 0.35 * box.width, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + 0.5 * box.width, box.y + 20, { steps: 4 });
  await page.mouse.up();
  const [, a, b] = (await range()).match(/^steps (\d+) to (\d+)$/).map(Number);
  assert.ok(a > 500 && b < 570 && a < 529 && b > 529, `${a} to ${b} holds the onset`);
  await page.screenshot({ path: join(target, 'zoomed.png') });
  await page.mouse.move(box.x + 0.5 * box.width, box.y + 20);
  const at = await tip(stack);
  assert.ok(at.step >= a && at.step <= b);
  agrees(log('bad-data'), at, 'Loss', 'loss');
  await page.screenshot({ path: join(target, 'hover.png') });
  await plot.dblclick();
  assert.equal(await range(), '');
});

// Of layers the highest is read off, and the map follows the zoom.
await open('layers', {}, async (page) => {
  const stack = page.locator('#i1');
  await stack.locator('.plot').first().scrollIntoViewIfNeeded();
  const box = await stack.locator('.plot').first().boundingBox();
  await page.mouse.move(box.x + 0.5 * box.width, box.y + 20);
  const at = await tip(stack);
  assert.match(at.values.get('Largest attention logit, highest layer'), /^\d+(\.\d+)? \(layer 11\)$/);
  const map = stack.locator('.stretch').last();
  await stack.getByRole('button', { name: 'Zoom in' }).click();
  assert.match(await map.getAttribute('transform'), /scale\(2 1\)/);
});

// Every sign has its own place, however narrow the page is and however far it is zoomed into.
for (const width of WIDTHS) {
  await open('learning-rate', { viewport: { width, height: 900 } }, async (page) => {
    const apart = async () => {
      const boxes = await page.locator('#run .strip .sign:visible').evaluateAll((all) => all.map((e) => e.getBoundingClientRect().toJSON()));
      for (const [n, a] of boxes.entries()) {
        for (const b of boxes.slice(n + 1)) {
          assert.ok(a.right <= b.left || b.right <= a.left || Math.abs(a.top - b.top) > 10, `signs overlap at ${width}`);
        }
      }
      return boxes.length;
    };
    assert.ok(await apart() >= 6, 'five incidents and an attempt');
    const stack = page.locator('#run');
    await stack.getByRole('button', { name: 'Zoom in' }).click();
    await stack.getByRole('button', { name: 'Later steps' }).click();
    await stack.getByRole('button', { name: 'Later steps' }).click();
    assert.ok(await apart() >= 6, 'they are there when they are near');
  });
}

// On a telephone one need not scroll sideways to see why and what to do.
await open('attention-logit', { viewport: { width: 380, height: 800 } }, async (page) => {
  const box = await page.locator('#answer td', { hasText: 'go back to' }).first().boundingBox();
  assert.ok(box.x + box.width <= 380 && box.y + box.height <= 800, 'the advice is on the first screen');
});

// The command is copied, and evidence leads to its panel.
await open('bad-data', { permissions: ['clipboard-read', 'clipboard-write'] }, async (page) => {
  const command = await page.locator('#i1-command').textContent();
  await page.getByRole('button', { name: 'Copy' }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), command);
  await page.locator('.evidence a', { hasText: 'Update norm' }).first().click();
  assert.equal(new URL(page.url()).hash, '#i1-update_norm');
  const box = await page.locator('#i1-update_norm').boundingBox();
  assert.ok(box.y >= 0 && box.y < 900, 'the panel is in sight');
});

// Without a script everything is there, and no button that does nothing.
for (const name of pages) {
  await open(name, { javaScriptEnabled: false }, async (page) => {
    for (const selector of ['h1', 'h2', 'h3', 'dt', 'dd', 'pre code', 'figcaption', 'caption', '.legend li', '.axis span', '.plot svg']) {
      for (const one of await page.locator(`:not(details:not([open])) > ${selector}, ${selector}`).all()) {
        if (await one.evaluate((e) => e.closest('details:not([open])') !== null)) continue;
        assert.ok(await one.isVisible(), `${selector}: ${await one.textContent()}`);
      }
    }
    assert.equal(await page.locator('button:visible').count(), 0);
    const drawn = await page.locator('.line.value').evaluateAll((all) => all.filter((p) => p.getTotalLength() > 0).length);
    assert.ok(drawn > 0, 'curves are drawn');
  });
}

// On paper: a document that is not empty, every folded part open, and nothing that only a screen needs.
for (const name of ['bad-data', 'healthy', 'learning-rate']) {
  await open(name, {}, async (page) => {
    const path = join(target, `${name}.pdf`);
    await page.pdf({ path, format: 'A4', printBackground: false });
    assert.ok(statSync(path).size > 10_000);
    await page.emulateMedia({ media: 'print' });
    assert.equal(await page.locator('nav, .controls').evaluateAll((all) => all.filter((e) => e.checkVisibility()).length), 0);
  });
}

await browser.close();
console.log(`${tests} visits to ${pages.length} pages: ok; pictures are in ${target}`);
