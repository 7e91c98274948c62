"""Which mistakes does a schedule of layers give away? Rules about the layers of one config.

A rule yields its findings about a model, its runs of layers and the positions of training; `RULES`
lists all. Nothing is said of a schedule that the published models of a type have.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pefourier.encodings.encoding import Finding
from pefourier.encodings.findings import finding
from pefourier.encodings.sources import layers
from pefourier.encodings.sources.config import ModelConfig
from pefourier.encodings.sources.rope_config import PAIRED
from pefourier.errors import shown

Runs = Sequence[layers.LayerRun]


def inverted(model: ModelConfig, runs: Runs, trained: int) -> Iterator[Finding]:
    """Layers without positions that are more than those with, where a model type has few."""
    told, row = model.config.values.get("no_rope_layers"), model.row
    number = model.layers
    step = row.get("unrotated", ())
    if not isinstance(told, list) or not number or len(step) < 2:
        return
    still, usual = sum(not turns for turns in told), number // (step[1] - step[0])
    if 2 * still <= number or still <= usual:
        return
    told = {"config": model.config.label, "kind": shown(model.kind)}
    yield finding("layers-inverted", still=still, number=number, usual=usual, **told)


def without_global(model: ModelConfig, runs: Runs, trained: int) -> Iterator[Finding]:
    """Windows in all layers of a model type that has layers which see all."""
    usual, told = model.row.get("layer_types", ""), layers.told_types(model.config.values)
    if layers.FULL not in usual or not told:
        return
    windows = [run.window for run in runs for _ in run.index]
    if not windows or any(window is None or window >= trained for window in windows):
        return
    reach = sum(window - 1 for window in windows)
    told = {"layers": len(windows), "config": model.config.label, "kind": shown(model.kind)}
    told |= {"widest": max(windows), "trained": trained}
    if reach < trained:
        yield finding("layers-no-global", "never", reach=reach, **told)
    else:
        yield finding("layers-no-global", "through", reach=max(windows) - 1, **told)


def beyond_training(model: ModelConfig, runs: Runs, trained: int) -> Iterator[Finding]:
    """A window that is longer than training."""
    widest = max((run.window or 0 for run in runs), default=0)
    if widest > trained:
        yield finding("window-above-trained", window=widest, trained=trained)


def below_one(model: ModelConfig, runs: Runs, trained: int) -> Iterator[Finding]:
    """A window of no positions, or fewer, in layers that have one."""
    key, values = layers.window_key(model), model.config.values
    if type(told := values.get(key)) is not int or told > 0:
        return
    wide = replace(model, config=replace(model.config, values={**values, key: 1}))
    kinds, _ = layers.layer_types(model, model.layers)
    if any(layers.window_of(wide, kind) for kind in kinds or [""]):
        yield finding("window-below-one", key=key, told=told, config=model.config.label)


def needless(model: ModelConfig, runs: Runs, trained: int) -> Iterator[Finding]:
    """A section of rope_parameters for a type whose layers do not rotate."""
    given = model.config.values.get("rope_parameters")
    kinds = set(layers.told_types(model.config.values))
    if not isinstance(given, dict) or not kinds or model.part:
        return
    used = {run.part for run in runs if run.kind == "rotary"}
    for name in sorted(kinds & given.keys()):
        if isinstance(given[name], dict) and used and name not in used:
            yield finding("layers-needless", name=name, config=model.config.label)


def indexer(model: ModelConfig, runs: Runs, trained: int) -> Iterator[Finding]:
    """The rotation of an indexer beside that of attention."""
    row = model.row
    if "indexer" not in row:
        return
    own, other = PAIRED[row["indexer"]], PAIRED[row.get("layout", "halves")]
    how = f"{other} as in attention" if own == other else f"{own}, where attention pairs {other}"
    heads, width = (model.config.count(f"index_{key}") for key in ("n_heads", "head_dim"))
    sizes = f" ({heads} heads of {width})" if heads and width else ""
    yield finding("rope-indexer", sizes=sizes, how=how)


RULES = (inverted, without_global, beyond_training, below_one, needless, indexer)


def lint_layers(model: ModelConfig, runs: Runs, trained: int) -> tuple[Finding, ...]:
    """What each rule finds in the layers of a config, in the order of `RULES`."""
    return tuple(finding for rule in RULES for finding in rule(model, runs, trained))
