#!/usr/bin/env python3
"""The rival: a plain SAO loop in Python on transformers, as a good engineer writes it in an afternoon.

Synchronous: generate a batch, score it, update the critic K times and the policy once. Prints one JSON object a step.
Same model, tasks, reward and hyper-parameters as config/presets/quickstart.json. Run it by python_loop.sh.
"""
import argparse
import copy
import json
import math
import re
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, logging

ROOT = Path(__file__).resolve().parents[2]
DIS_LOW, DIS_HIGH = 0.3, 5.0
LAMBDA_ALPHA = 1.5
RMS_DECAY = 0.9
VALUE_HISTORY = 128  # trajectories that the explained variance looks back on


def read_json(path):
    """JSON with // comments on lines of their own."""
    return json.loads(re.sub(r"^\s*//.*$", "", (ROOT / path).read_text(), flags=re.MULTILINE))


def read_prompts():
    tasks = read_json("config/tasks/writing.json")
    return [[{"role": "system", "content": tasks["system"]}, {"role": "user", "content": form.replace("{}", topic)}]
            for topic in tasks["topics"] for form in tasks["forms"]]


def make_scorer(spec):
    """Weighted sum of the parts of config/rewards/NAME.json that a style spec has."""
    def score(answer):
        words = re.findall(r"[a-z']+", answer.lower())
        present = set(words) | {symbol for symbol in "!~" if symbol in answer}
        total = 0.0
        for part in spec["parts"]:
            if part["kind"] == "style_words":
                value = 1 - math.exp(-len(present & set(part["words"])) / 2)
            elif part["kind"] == "repetition":
                repeated = 1 - len(set(words)) / len(words) if words else 0.0
                value = max(0.0, repeated - part["above"])
            else:
                raise SystemExit(f"python_loop: no rule for reward kind {part['kind']}")
            total += part["weight"] * value
        return total
    return score


@torch.no_grad()
def generate(model, tokenizer, prompts, new_tokens):
    """Samples one answer a prompt at temperature 1. Returns (prompt ids, answer ids, their log-probs), each a list."""
    texts = tokenizer.apply_chat_template(prompts, tokenize=False, add_generation_prompt=True)
    batch = tokenizer(texts, return_tensors="pt", padding=True, padding_side="left", add_special_tokens=False)
    mask = batch.attention_mask
    tokens = batch.input_ids
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache, answers, logps = None, [], []
    alive = torch.ones(len(prompts), dtype=torch.bool)
    lengths = torch.zeros(len(prompts), dtype=torch.long)
    for _ in range(new_tokens):
        output = model(input_ids=tokens, attention_mask=mask, position_ids=positions, cache=cache,
                       use_cache=True, logits_to_keep=1)
        cache = output.cache
        logp = output.logits[:, -1].log_softmax(-1)
        tokens = torch.multinomial(logp.exp(), 1)
        answers.append(tokens)
        logps.append(logp.gather(1, tokens))
        lengths += alive
        alive &= tokens[:, 0] != tokenizer.eos_token_id
        if not alive.any():
            break
        positions = positions[:, -1:] + 1
        mask = torch.cat([mask, torch.ones_like(tokens)], 1)
    answers, logps = torch.cat(answers, 1), torch.cat(logps, 1)
    prompt_ids = [row[keep.bool()] for row, keep in zip(batch.input_ids, batch.attention_mask)]
    return (prompt_ids, [answers[i, :n] for i, n in enumerate(lengths)], [logps[i, :n] for i, n in enumerate(lengths)])


class Batch:
    """Prompts and answers side by side, padded on the right. `rows` pick the hidden states that predict an action."""

    def __init__(self, prompt_ids, answer_ids, logps, rewards):
        sequences = [torch.cat(pair) for pair in zip(prompt_ids, answer_ids)]
        self.tokens = torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True)
        self.mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(s) for s in sequences], batch_first=True)
        self.lengths = [len(answer) for answer in answer_ids]
        starts = [len(prompt) - 1 for prompt in prompt_ids]
        self.rows = (torch.tensor([i for i, n in enumerate(self.lengths) for _ in range(n)]),
                     torch.tensor([start + t for start, n in zip(starts, self.lengths) for t in range(n)]))
        self.actions = torch.cat(answer_ids)
        self.behaviour = torch.cat(logps)
        self.rewards = rewards

    @property
    def size(self):
        return int(self.mask.sum())

    def hidden(self, backbone):
        """Final hidden states [actions, hidden] before each action."""
        return backbone(input_ids=self.tokens, attention_mask=self.mask, use_cache=False).last_hidden_state[self.rows]


class Critic(torch.nn.Module):
    """A copy of the policy's backbone with a value head; attention and embedding frozen."""

    def __init__(self, backbone):
        super().__init__()
        self.backbone = copy.deepcopy(backbone)
        self.head = torch.nn.Linear(backbone.config.hidden_size, 1)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        for name, parameter in self.backbone.named_parameters():
            parameter.requires_grad_("self_attn" not in name and "embed_tokens" not in name)

    def forward(self, batch):
        return self.head(batch.hidden(self.backbone)).squeeze(-1)


def advantages_of(values, batch):
    """GAE with gamma 1, lambda = 1 - 1/(1.5 length), the whole reward on the last token, terminal."""
    result = []
    for value, reward in zip(values.split(batch.lengths), batch.rewards):
        decay = min(max(1 - 1 / (LAMBDA_ALPHA * len(value)), 0.0), 1.0)
        deltas = torch.cat([value[1:], torch.tensor([reward])]) - value
        advantage, advantages = 0.0, []
        for delta in reversed(deltas.tolist()):
            advantage = delta + decay * advantage
            advantages.append(advantage)
        result.append(torch.tensor(advantages[::-1]))
    return torch.cat(result)


def update(optimizer, parameters):
    norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return float(norm)


def explained_variance(history):
    values, targets = (torch.cat([pair[i] for pair in history]) for i in (0, 1))
    variance = targets.var(correction=0)
    return None if variance < 1e-8 else float(1 - (targets - values).var(correction=0) / variance)


class Stopwatch:
    """Seconds by phase."""

    def __init__(self):
        self.seconds, self._last = {}, time.perf_counter()

    def lap(self, phase):
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - self._last
        self._last = now


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30, help="policy steps, value-only ones not counted")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--updates", type=int, default=2, help="K: critic updates a step")
    parser.add_argument("--warmup", type=int, default=2, help="value-only steps")
    parser.add_argument("--spec", default="chuunibyou")
    parser.add_argument("--model", default="third_party/SmolLM2-135M-Instruct.Q4_1.gguf")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable_progress_bar()
    torch.manual_seed(options.seed)
    if options.threads:
        torch.set_num_threads(options.threads)

    path = ROOT / options.model
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    policy = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    critic = Critic(policy.model)
    trained = [p for p in critic.parameters() if p.requires_grad]
    adam = {"betas": (0.9, 0.95), "weight_decay": 0.0, "fused": True}
    policy_optimizer = torch.optim.AdamW(policy.parameters(), lr=5e-5, **adam)
    value_optimizer = torch.optim.AdamW(trained, lr=1e-4, **adam)

    prompts = read_prompts()
    score = make_scorer(read_json(f"config/rewards/{options.spec}.json"))
    shuffle = torch.Generator().manual_seed(options.seed)
    order = []
    mean_square = weight = 0.0
    history = []
    for step in range(1 - options.warmup, options.steps + 1):
        watch = Stopwatch()
        while len(order) < options.batch:
            order += torch.randperm(len(prompts), generator=shuffle).tolist()
        chosen, order = order[:options.batch], order[options.batch:]
        prompt_ids, answer_ids, logps = generate(policy, tokenizer, [prompts[i] for i in chosen], options.new_tokens)
        answers = tokenizer.batch_decode(answer_ids, skip_special_tokens=True)
        batch = Batch(prompt_ids, answer_ids, logps, [score(answer) for answer in answers])
        watch.lap("generate")

        # The values of the first pass, before any update, give the advantages; targets are plain returns (lambda 1).
        targets = torch.cat([torch.full((n,), reward) for n, reward in zip(batch.lengths, batch.rewards)])
        for k in range(options.updates):
            values = critic(batch)
            if k == 0:
                before = values.detach()
            (0.5 * (values - targets).square().mean()).backward()
            watch.lap("value")
            update(value_optimizer, trained)
            watch.lap("optimizer")
        history += zip(before.split(batch.lengths), targets.split(batch.lengths))
        history = history[-VALUE_HISTORY:]
        advantages = advantages_of(before, batch)
        divisor = max(math.sqrt(mean_square / weight), 1e-6) if weight else 1.0
        mean_square = RMS_DECAY * mean_square + (1 - RMS_DECAY) * float(advantages.square().mean())
        weight = RMS_DECAY * weight + (1 - RMS_DECAY)
        passes = options.updates

        report = {"step": step, "reward_mean": sum(batch.rewards) / len(batch.rewards),
                  "explained_variance": explained_variance(history)}
        if step > 0:
            logits = policy.lm_head(batch.hidden(policy.model))
            logp = logits.log_softmax(-1).gather(1, batch.actions[:, None]).squeeze(1)
            ratio = (logp.detach() - batch.behaviour).exp()
            inside = (ratio > 1 - DIS_LOW) & (ratio < 1 + DIS_HIGH)
            (-(ratio * inside * advantages / divisor * logp).mean()).backward()
            watch.lap("policy")
            report["policy_gradient_norm"] = update(policy_optimizer, policy.parameters())
            report["masked_share"] = 1 - float(inside.float().mean())
            watch.lap("optimizer")
            passes += 1
        seconds = sum(watch.seconds.values())
        print(json.dumps({
            **report, "seconds": {name: round(value, 3) for name, value in watch.seconds.items()},
            "step_seconds": round(seconds, 3), "action_tokens": len(batch.actions),
            "learner_token_passes": batch.size * passes}), flush=True)


if __name__ == "__main__":
    main()
