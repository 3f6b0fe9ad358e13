#!/usr/bin/env python3
"""Millrace beside its peers, piece by piece, on the same model and the same work. Run it by speed.sh.

Every section runs ours and theirs in turns, ROUNDS times, each in a process of its own, and compares medians. Prints one
JSON object a section and writes nothing.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "third_party" / "SmolLM2-135M-Instruct.Q4_1.gguf"
PROGRAM = ROOT / "build" / "release" / "millrace"
PROMPT, NEW_TOKENS = 32, 64


# --- The peers: each prints one number, a rate. ---

def load_transformers(dtype):
    import torch
    from transformers import AutoModelForCausalLM, logging
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(MODEL.parent.resolve(), gguf_file=MODEL.name, dtype=getattr(torch, dtype))
    return torch, model


def transformers_generate(batch, dtype="float32"):
    """Tokens a second of decoding alone: what 64 new tokens take longer than one."""
    torch, model = load_transformers(dtype)
    model.eval()
    ids = torch.randint(10, 40000, (batch, PROMPT))

    def seconds(new_tokens):
        begin = time.perf_counter()
        model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, top_k=0, top_p=1.0,
                       min_new_tokens=new_tokens, max_new_tokens=new_tokens, pad_token_id=0)
        return time.perf_counter() - begin

    seconds(2)
    return statistics.median(batch * (NEW_TOKENS - 1) / (seconds(NEW_TOKENS) - seconds(1)) for _ in range(2))


def transformers_learn(dtype):
    """8 x 80 tokens, the second half trained: forward, logits of the trained rows, backward, AdamW."""
    torch, model = load_transformers(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    ids = torch.randint(10, 40000, (8, 80))
    steps = []
    for _ in range(5):
        begin = time.perf_counter()
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, 39:79]
        logits = model.lm_head(hidden).float()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 40:].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        steps.append(time.perf_counter() - begin)
    return 8 * 80 / statistics.median(steps[1:])


def llama_generate(batch):
    """The Q4_1 file, all sequences in one llama_batch, without sampling."""
    import ctypes

    import llama_cpp as llama
    quiet = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(quiet, ctypes.c_void_p(0))
    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(str(MODEL).encode(), llama.llama_model_default_params())
    settings = llama.llama_context_default_params()
    settings.n_ctx = batch * (PROMPT + NEW_TOKENS + 8)
    settings.n_batch = settings.n_ubatch = batch * PROMPT
    settings.n_seq_max = batch
    settings.n_threads = settings.n_threads_batch = 2
    context = llama.llama_init_from_model(model, settings)
    tokens = llama.llama_batch_init(batch * PROMPT, 0, 1)

    def decode(positions):
        tokens.n_tokens = batch * len(positions)
        for sequence in range(batch):
            for i, position in enumerate(positions):
                at = sequence * len(positions) + i
                tokens.token[at] = 1000 + 37 * sequence + position
                tokens.pos[at] = position
                tokens.n_seq_id[at] = 1
                tokens.seq_id[at][0] = sequence
                tokens.logits[at] = i == len(positions) - 1
        if llama.llama_decode(context, tokens) != 0:
            raise SystemExit("llama_decode failed")
        llama.llama_get_logits(context)

    decode(range(PROMPT))
    seconds = []
    for position in range(PROMPT, PROMPT + NEW_TOKENS):
        begin = time.perf_counter()
        decode([position])
        seconds.append(time.perf_counter() - begin)
    return batch / statistics.median(seconds)


def ray_flow(sessions=64, seconds=6):
    """Three hops between four actors, 1 KB built for each trajectory, so many under way."""
    import numpy
    import ray
    ray.init(num_cpus=4, log_to_driver=False, include_dashboard=False, logging_level="error")

    @ray.remote(num_cpus=1)
    class Stage:
        def build(self):
            return {"tokens": numpy.full(128, 7, numpy.int32), "logp": numpy.full(128, -1.0, numpy.float32), "reward": 0.0}

        def forward(self, trajectory):
            trajectory["reward"] = 1.0
            return trajectory

        def learn(self, trajectory):
            return len(trajectory["tokens"])

    session, scorer, gatekeeper, learner = (Stage.remote() for _ in range(4))

    def start():
        return learner.learn.remote(gatekeeper.forward.remote(scorer.forward.remote(session.build.remote())))

    waiting = [start() for _ in range(sessions)]
    rates = []
    for _ in range(4):
        done, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds / 3:
            ready, waiting = ray.wait(waiting, num_returns=1)
            ready += [ref for ref in ray.wait(waiting, num_returns=len(waiting), timeout=0)[0]]
            waiting = [ref for ref in waiting if ref not in set(ready)] + [start() for _ in ready]
            done += len(ready)
        rates.append(done / (time.perf_counter() - begin))
    return statistics.median(rates[1:])


def trl_grpo(steps=4):
    """GRPOTrainer on the tasks and the reward of the quickstart, float32 on the CPU; steps a second."""
    from datasets import Dataset
    from python_loop import make_scorer, read_json, read_prompts
    from transformers import AutoTokenizer
    from trl import GRPOConfig, GRPOTrainer
    _, model = load_transformers("float32")
    model.is_quantized = False  # it was read from a quantised file, and is float32 now
    tokenizer = AutoTokenizer.from_pretrained(MODEL.parent.resolve(), gguf_file=MODEL.name)
    score = make_scorer(read_json("config/rewards/chuunibyou.json"))

    def reward(completions, **_):
        return [score(completion[0]["content"]) for completion in completions]

    settings = GRPOConfig(output_dir=tempfile.mkdtemp(prefix="millrace-trl-"), use_cpu=True, bf16=False, max_steps=steps,
                          per_device_train_batch_size=16, num_generations=4, max_completion_length=24, temperature=1.0,
                          learning_rate=5e-5, beta=0.0, report_to=[], save_strategy="no", logging_steps=1,
                          gradient_checkpointing=False, disable_tqdm=True)
    trainer = GRPOTrainer(model=model, reward_funcs=reward, args=settings, processing_class=tokenizer,
                          train_dataset=Dataset.from_dict({"prompt": read_prompts()}))
    ends = []
    inner = trainer.training_step

    def timed(*arguments, **named):
        result = inner(*arguments, **named)
        ends.append(time.perf_counter())
        return result

    trainer.training_step = timed
    trainer.train()
    return 1 / statistics.median(after - before for before, after in zip(ends, ends[1:]))


def python_loop():
    """Steps a second of python_loop.py; K = 2, 16 rollouts of 24 tokens."""
    result = subprocess.run([sys.executable, ROOT / "tests" / "bench" / "python_loop.py", "--steps", "3", "--warmup", "1"],
                            cwd=ROOT, capture_output=True, text=True, check=True)
    return 1 / statistics.median(json.loads(line)["step_seconds"] for line in result.stdout.splitlines()[1:])


PEERS = {"trl_grpo": trl_grpo, "python_loop": python_loop,
         "transformers_generate": transformers_generate, "transformers_learn": transformers_learn,
         "llama_generate": llama_generate, "ray_flow": ray_flow}


# --- Side by side. ---

def our_steps(*sets):
    """Steps a second of the service itself, and no limit."""
    with tempfile.TemporaryDirectory(prefix="millrace-speed-") as folder:
        arguments = [PROGRAM, "serve", "config/presets/quickstart.json", "--json", "--steps", "8"]
        for entry in ("http.port=0", f"state.directory={folder}/state", "checkpoint.every_steps=1000", *sets):
            arguments += ["--set", entry]
        result = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True)
    return 1 / statistics.median(json.loads(line)["step_seconds"] for line in result.stdout.splitlines()[2:]), None


def ours(figure, *arguments):
    if figure == "steps":
        return our_steps(*arguments)
    result = subprocess.run([PROGRAM, "bench", *arguments, "--json"], cwd=ROOT, capture_output=True, text=True, check=True)
    figures = {entry["name"]: entry for entry in map(json.loads, result.stdout.splitlines())}
    return figures[figure]["value"], figures[figure]["limit_share"]


def theirs(peer, *arguments):
    result = subprocess.run([sys.executable, __file__, "--peer", peer, *map(str, arguments)], cwd=ROOT,
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SystemExit(f"{peer}: {result.stderr[-2000:]}")
    return float(result.stdout.splitlines()[-1])


# name: what we run, what they run, the target's factor
SECTIONS = {
    "generation_float32": (("generation", "generate", "--dtype", "float32"), ("transformers_generate", 16), 2.5),
    "generation_best": (("generation", "generate", "--dtype", "int8"), ("llama_generate", 16), 1.5),
    "generation_bfloat16": (("generation", "generate", "--dtype", "bfloat16"), ("llama_generate", 16), 1.5),
    "generation_one": (("generation", "generate", "--dtype", "int8", "--batch", "1"), ("llama_generate", 1), 1.0),
    "learning_float32": (("policy_learning", "learn", "--dtype", "float32"), ("transformers_learn", "float32"), 1.15),
    "learning_bfloat16": (("policy_learning", "learn", "--dtype", "bfloat16"), ("transformers_learn", "bfloat16"), 1.4),
    "flow": (("flow", "flow"), ("ray_flow",), 300),
    "quickstart_step": (("steps", "value.warmup_steps=0"), ("python_loop",), 2),
    "grpo_step": (("steps", "recipe=grpo", "pacing=sync", "loss.kl_weight=0"), ("trl_grpo",), 2),  # TRL: beta=0
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", nargs="+", help="run one peer in this process: its name and arguments")
    options = parser.parse_args()
    if options.peer:
        arguments = [int(argument) if argument.isdigit() else argument for argument in options.peer[1:]]
        print(PEERS[options.peer[0]](*arguments))
        return
    for name in options.sections:
        if name not in SECTIONS:
            raise SystemExit(f"speed: unknown section {name}: there are {', '.join(SECTIONS)}")
        our_call, their_call, target = SECTIONS[name]
        mine, peers = [], []
        for _ in range(options.rounds):
            peers.append(theirs(*their_call))
            mine.append(ours(*our_call))
        value, limit_share = sorted(mine, key=lambda pair: pair[0])[len(mine) // 2]
        peer = statistics.median(peers)
        print(json.dumps({"section": name, "ours": float(f"{value:.4g}"), "limit_share": limit_share,
                          "theirs": float(f"{peer:.4g}"), "ratio": round(value / peer, 2), "target": target}), flush=True)


if __name__ == "__main__":
    main()
