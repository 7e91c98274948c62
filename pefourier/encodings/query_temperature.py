"""Temperatures: factors of queries that grow with their position and keep attention sharp.

Conventions
-----------
A temperature multiplies the query at position p, not the keys, and is 1 at short lengths. Vectors
of positions do not contain it.
"""

from dataclasses import dataclass, replace
from math import log
from typing import Any, Literal

import numpy as np

from pefourier.errors import PefourierError, check_above, check_count
from pefourier.types import Array, Fields, Floats, Values

TemperatureRule = Literal["none", "llama4", "ministral3", "log-n", "inkling"]
FLOORS = {"llama4": 8192, "ministral3": 16384, "log-n": 8192, "inkling": 128000}


@dataclass(frozen=True)
class Temperature:
    r"""Factor of queries at position p, with :math:`x = (p + o)/F`.

    The factor is :math:`1 + a \ln(1 + \lfloor x \rfloor)` if `stepwise`, or else
    :math:`1 + a \ln\max(x, 1)`. Log n scaling, :math:`\max(\ln(p + 1)/\ln F, 1)`, is the latter
    with :math:`a = 1/\ln F`.
    """

    layers: str  # "without positions" or "all"
    scale: float  # a
    floor: int  # F, positions
    first: int  # o, the number of the first position
    stepwise: bool = True
    largest: float = 1.0  # at the last position of the length

    def at(self, positions: Array) -> Floats:
        """Factors of the queries at some positions.

        >>> Temperature("all", 0.1, 8192, 1).at(np.array([8190, 8191, 131071])).round(8)
        array([1.        , 1.06931472, 1.28332133])
        """
        return np.asarray(1 + self.scale * np.log(self.inside_log(positions)))

    def inside_log(self, positions: Any) -> Any:
        """Return the number inside the logarithm; positions are an array or a tensor."""
        x = (positions + self.first) / self.floor
        return 1 + x // 1 if self.stepwise else x.clip(min=1.0)

    def over(self, length: int) -> "Temperature":
        """Return the temperature with its largest value over `length` positions."""
        return replace(self, largest=float(self.at(np.array(length - 1))))

    def __str__(self) -> str:
        x = f"{f'(p + {self.first})' if self.first else 'p'}/{self.floor}"
        x = f"1 + floor({x})" if self.stepwise else f"max({x}, 1)"
        return f"1 + {self.scale:.6g} ln({x})"


def temperature_settings(rule: str | None, scale: float, floor: int) -> Fields:
    """Return the scale and the floor of a rule; without a rule, refuse them and return nulls.

    >>> temperature_settings("ministral3", 0.0, 0)
    {'temperature_scale': 0.1, 'temperature_floor': 16384}
    """
    if rule in ("none", None):
        for key, value in (("temperature_scale", scale), ("temperature_floor", floor)):
            if value:
                raise PefourierError(f"{key}={value:g} needs a temperature, as temperature=llama4")
        return dict.fromkeys(("temperature", "temperature_scale", "temperature_floor"))
    floor = floor or FLOORS[rule]
    check_count("temperature_floor", floor, minimum=2 if rule == "log-n" else 1)
    scale = scale or (1 / log(floor) if rule == "log-n" else 0.1)
    check_above("temperature_scale", scale)
    return {"temperature_scale": scale, "temperature_floor": floor}


def temperature_in(params: Values, length: int) -> Temperature | None:
    """Return the temperature that the parameters of an encoding set, if any."""
    rule = params.get("temperature")
    if rule in ("none", None):
        return None
    numbers = params["temperature_scale"], params["temperature_floor"], int(rule != "ministral3")
    return Temperature("all", *numbers, stepwise=rule in ("llama4", "ministral3")).over(length)
