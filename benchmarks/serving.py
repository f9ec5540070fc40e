"""A server under load beside the bare model called in a loop, on the same machine: throughput, p50 and p99 latency.

    knn-ue train ... && knn-ue fit ... --out ue
    python benchmarks/serving.py ue --texts texts.jsonl --seconds 20 --out benchmarks/serving.json

Three ways answer the same texts, one text a request: `bare`, the Hugging Face model and tokenizer in a loop, no server,
no neighbors; `unbatched`, our server with --batch-items 1; `batched`, our server as it is. Clients are threads of one
other process with a connection each, which ask again as soon as they are answered.
"""

import argparse
import http.client
import json
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

CLIENTS = (1, 8, 64)


def main() -> None:
    """Measure and write."""
    options = _options()
    texts = [json.loads(line)["text"] for line in options.texts.read_text(encoding="utf-8").splitlines() if line]
    texts = texts[: options.n_texts]
    found: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "threads": options.threads},
        "texts": {"n": len(texts), "median_characters": float(np.median([len(text) for text in texts]))},
        "seconds": options.seconds,
        "bare": measure_bare(options, texts),
    }
    print("bare", found["bare"], flush=True)
    for name, arguments in (("unbatched", ["--batch-items", "1", "--max-items", "1"]), ("batched", [])):
        found[name] = measure_server(options, texts, arguments)
        print(name, json.dumps(found[name], indent=1), flush=True)
    found["gain_of_batching"] = {
        str(n): found["batched"][str(n)]["per_second"] / found["unbatched"][str(n)]["per_second"] for n in CLIENTS
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measure_bare(options: argparse.Namespace, texts: list[str]) -> dict[str, float]:
    """Return how fast a process of its own answers with the bare model, one text after the other."""
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import serving; serving.loop_bare(sys.argv)"
    )
    command = [sys.executable, "-c", code, str(options.ue), str(options.seconds)]
    done = subprocess.run(
        command, input=json.dumps(texts), capture_output=True, text=True, check=True, env=_environment(options.threads)
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def loop_bare(arguments: list[str]) -> None:
    """Call the model in a loop, as people do without a server; prints the result as JSON."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from knn_ue.folder import open_folder

    encoder = open_folder(arguments[1]).parts["encoder"]
    folder = encoder.path_of("config.json").parent
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    max_length = encoder.state["options"]["max_length"]
    texts = json.load(sys.stdin)
    latencies: list[float] = []
    begun = None
    for turn in range(10**9):
        start = time.perf_counter()
        with torch.inference_mode():
            inputs = tokenizer(texts[turn % len(texts)], truncation=True, max_length=max_length, return_tensors="pt")
            model(**inputs).logits.softmax(-1).max().item()
        if turn < 10:  # the first calls are slower than all others
            continue
        begun = begun or start
        latencies.append(time.perf_counter() - start)
        if time.perf_counter() - begun > float(arguments[2]):
            break
    print(json.dumps(_summary(latencies, time.perf_counter() - (begun or 0))))


def measure_server(options: argparse.Namespace, texts: list[str], arguments: list[str]) -> dict[str, Any]:
    """Return how fast a server answers each number of clients."""
    command = [sys.executable, "-c", "from knn_ue.cli import app; app()", "serve", str(options.ue), "--port", "0"]
    server = subprocess.Popen(
        [*command, "--read-only", *arguments], stderr=subprocess.PIPE, text=True, env=_environment(options.threads)
    )
    try:
        port = _port(server)
        load(port, texts, n_clients=4, seconds=2)
        return {str(n): load(port, texts, n_clients=n, seconds=options.seconds) for n in CLIENTS}
    finally:
        server.terminate()
        server.wait(60)


def load(port: int, texts: list[str], *, n_clients: int, seconds: float) -> dict[str, float]:
    """Let clients ask for some seconds and return what they saw."""
    latencies: list[list[float]] = [[] for _ in range(n_clients)]
    refused = [0] * n_clients
    end = time.perf_counter() + seconds

    def ask(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        turn = number * 7
        while (start := time.perf_counter()) < end:
            body = json.dumps({"inputs": texts[turn % len(texts)], "top": 0})
            connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                latencies[number].append(time.perf_counter() - start)
            else:
                refused[number] += 1
                time.sleep(float(answer.headers.get("Retry-After", 1)))
            turn += 1
        connection.close()

    begun = time.perf_counter()
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everyone = [value for one in latencies for value in one]
    return _summary(everyone, time.perf_counter() - begun) | {"refused": sum(refused)}


def _summary(latencies: list[float], seconds: float) -> dict[str, float]:
    p50, p99 = np.quantile(latencies, [0.5, 0.99]) * 1000
    return {
        "per_second": round(len(latencies) / seconds, 1),
        "p50_ms": round(float(p50), 1),
        "p99_ms": round(float(p99), 1),
        "n": len(latencies),
    }


def _port(server: "subprocess.Popen[str]") -> int:
    assert server.stderr is not None
    for line in server.stderr:
        if '"listening"' in line:
            port = int(json.loads(line)["address"].rsplit(":", 1)[1])
            # Nobody may stop reading, or the server would wait for room to write its log.
            threading.Thread(target=lambda: [None for _ in server.stderr or ()], daemon=True).start()
            return port
    raise SystemExit("the server did not start: run knn-ue serve by hand")


def _environment(threads: int) -> dict[str, str]:
    return os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ue", type=Path, help="a UE folder for texts")
    parser.add_argument("--texts", type=Path, required=True, help="JSON lines with a text each")
    parser.add_argument("--n-texts", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=1, help="of the model; the others are for clients and HTTP")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
