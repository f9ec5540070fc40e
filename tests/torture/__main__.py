"""`make torture`: every attack for its share of the time, and a table of what was tried and what broke."""

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from torture.attacks import ATTACKS
from torture.processes import start, wait
from torture.tally import Plan, Tally, table


def main() -> int:
    """Run the attacks; return 1 where anything was lost, wrong or crashed."""
    options = _options()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    names = options.only or list(ATTACKS)
    seconds = 60 * options.minutes
    print(f"seed {seed}, {options.minutes:g} minutes, attacks: {', '.join(names)}", flush=True)
    wait(start(int), 600)  # the process that others are forked from loads everything now, on nobody's time
    shares = sum(ATTACKS[name].share for name in names)
    tallies = []
    for number, name in enumerate(names):
        with tempfile.TemporaryDirectory(prefix="knn-ue-torture-", dir=options.folder) as folder:
            tally = Tally(ATTACKS[name].title)
            plan = Plan(
                folder=Path(folder), seconds=seconds * ATTACKS[name].share / shares, seed=seed + number, tally=tally,
                loads=options.loads, workers=options.workers,
            )  # fmt: skip
            _run(name, plan)
        tallies.append(tally)
        print(table([tally]).splitlines()[-1], flush=True)
        for fault in tally.faults[: options.faults]:
            print(f"  {fault}", flush=True)
    print(f"\n{table(tallies)}")
    return 0 if all(tally.is_clean for tally in tallies) else 1


def _run(name: str, plan: Plan) -> None:
    began = time.monotonic()
    try:
        ATTACKS[name].attack(plan)
    except Exception as error:  # the attack itself broke: the others go on, and the run fails
        import traceback

        traceback.print_exc()
        plan.tally.blame("crashed", f"the attack itself: {error!r}")
    plan.tally.seconds = time.monotonic() - began


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="for all attacks together (default 60)")
    parser.add_argument("--loads", type=int, default=0, help="mutated folders to open, however long it takes")
    parser.add_argument("--seed", type=int, help="a number; by default a new one, which is printed")
    parser.add_argument("--only", nargs="+", choices=list(ATTACKS), help="attacks to run")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2, help="processes that open mutated folders")
    parser.add_argument(
        "--folder", type=Path, help="where to work, on the disk to test (default: the temporary folder)"
    )
    parser.add_argument("--faults", type=int, default=20, help="faults to print per attack (default 20)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
