"""A study with Optuna. Each trial is a call on the cluster: four at once, and the next as soon as one has ended."""

import sys

import kajitori

try:
    import optuna
except ImportError as missing:
    sys.exit(f"This example needs Optuna ({missing}). Install it: {sys.executable} -m pip install optuna")

TRIALS, AT_ONCE = 20, 4


@kajitori.function(cpus=0.5, memory="512m")  # for GPUs: gpus=1, image="registry/bert:3", code="."
def loss(lr: float, layers: int) -> float:
    """Stand in for a training: return the loss that it reaches."""
    return abs(lr - 0.01) + 0.001 * abs(layers - 2)


def main() -> None:
    study = optuna.create_study(direction="minimize")
    with loss.pool(at_most=AT_ONCE) as pool:
        running: dict[kajitori.Call[float], optuna.Trial] = {}
        for begun in range(TRIALS + AT_ONCE):
            if len(running) == AT_ONCE or begun >= TRIALS:
                call = next(kajitori.as_completed(running))
                trial = running.pop(call)
                try:
                    study.tell(trial, call.result())
                except Exception as error:  # the study goes on without this trial
                    print(f"trial {trial.number} failed: {error}")
                    study.tell(trial, state=optuna.trial.TrialState.FAIL)
            if begun < TRIALS:
                trial = study.ask()
                lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
                running[pool.remote(lr, trial.suggest_int("layers", 1, 4))] = trial
    print(f"best: {study.best_params}, loss {study.best_value:.4f}")


if __name__ == "__main__":
    main()
