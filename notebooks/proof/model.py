"""A byte-level language model in numpy: embeddings of the last bytes, one hidden layer, Adam with a clipped gradient."""

import json

import numpy as np

from proof.data import CONTEXT

WIDTH, HIDDEN = 12, 96
BETA1, BETA2, EPS, CLIP = 0.9, 0.95, 1e-8, 1.0


class Model:
    def __init__(self, seed=3):
        rng = np.random.default_rng(seed)
        normal = lambda *shape, scale: (scale * rng.standard_normal(shape)).astype(np.float32)
        fan = CONTEXT * WIDTH
        self.weights = {
            "embedding": normal(256, WIDTH, scale=0.5),
            "hidden": normal(fan, HIDDEN, scale=fan**-0.5),
            "bias": np.zeros(HIDDEN, np.float32),
            "output": normal(HIDDEN, 256, scale=HIDDEN**-0.5),
        }
        self.first = {k: np.zeros_like(w) for k, w in self.weights.items()}
        self.second = {k: np.zeros_like(w) for k, w in self.weights.items()}
        self.updates = 0

    def loss(self, samples):
        """Mean loss of a batch of samples, and its gradient."""
        windows = np.lib.stride_tricks.sliding_window_view(samples, CONTEXT + 1, axis=1).reshape(-1, CONTEXT + 1)
        seen, target = windows[:, :-1], windows[:, -1]
        w, rows = self.weights, np.arange(len(target))
        x = w["embedding"][seen].reshape(len(seen), -1)
        h = np.tanh(x @ w["hidden"] + w["bias"])
        logits = h @ w["output"]
        logits -= logits.max(1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(1, keepdims=True)
        loss = -np.log(np.maximum(p[rows, target], 1e-30)).mean()
        p[rows, target] -= 1.0
        p /= len(target)
        dh = (p @ w["output"].T) * (1.0 - h * h)
        embedding = np.zeros_like(w["embedding"])
        np.add.at(embedding, seen.ravel(), (dh @ w["hidden"].T).reshape(-1, WIDTH))
        gradient = {"embedding": embedding, "hidden": x.T @ dh, "bias": dh.sum(0), "output": h.T @ p}
        return float(loss), gradient

    def update(self, gradient, lr):
        """One step of Adam; returns the norms of the gradient before it is clipped, of the update and of the weights."""
        norm = norm_of(gradient.values())
        moved = []
        scale = np.float32(min(1.0, CLIP / norm))
        self.updates += 1
        warm1, warm2 = 1 - BETA1**self.updates, 1 - BETA2**self.updates
        for k, g in gradient.items():
            g = g * scale
            self.first[k] = np.float32(BETA1) * self.first[k] + np.float32(1 - BETA1) * g
            self.second[k] = np.float32(BETA2) * self.second[k] + np.float32(1 - BETA2) * g * g
            step = self.first[k] / warm1 / (np.sqrt(self.second[k] / warm2) + EPS)
            moved.append(np.float32(lr) * step.astype(np.float32))
            self.weights[k] = self.weights[k] - moved[-1]
        return {"grad_norm": norm, "update_norm": norm_of(moved), "param_norm": norm_of(self.weights.values())}

    def save(self, folder, step, consumed):
        """A checkpoint in the layout of the Hugging Face Trainer; the state file is written last."""
        folder.mkdir(parents=True)
        write_safetensors(folder / "model.safetensors", self.weights)
        with open(folder / "optimizer.bin", "wb") as f:
            np.savez(f, updates=self.updates, **{f"first.{k}": v for k, v in self.first.items()},
                     **{f"second.{k}": v for k, v in self.second.items()})
        state = {"global_step": step, "consumed_samples": consumed}
        (folder / "trainer_state.json").write_text(json.dumps(state))

    def load(self, folder):
        """Takes weights, optimizer state and position in the data from a checkpoint; returns the step."""
        state = json.loads((folder / "trainer_state.json").read_text())
        self.weights = read_safetensors(folder / "model.safetensors")
        with np.load(folder / "optimizer.bin") as moments:
            self.updates = int(moments["updates"])
            self.first = {k: moments[f"first.{k}"] for k in self.weights}
            self.second = {k: moments[f"second.{k}"] for k in self.weights}
        return state["global_step"]


def norm_of(tensors):
    return float(np.sqrt(sum(float((t * t).sum()) for t in tensors)))


def write_safetensors(path, tensors):
    """Length of the header, the header as JSON, the values of the tensors one after another."""
    header, at = {}, 0
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    head = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(len(head).to_bytes(8, "little") + head)
        for t in tensors.values():
            f.write(np.ascontiguousarray(t).tobytes())


def read_safetensors(path):
    whole = path.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:start])
    tensor = lambda h: np.frombuffer(whole[start + h["data_offsets"][0] : start + h["data_offsets"][1]], np.float32)
    return {name: tensor(h).reshape(h["shape"]).copy() for name, h in header.items()}
