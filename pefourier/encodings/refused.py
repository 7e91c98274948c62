"""Encodings that are known by name and have no table of codes, and names that papers share."""

from pefourier.errors import PefourierError, shown

FIXED = "; give code that makes it for one input, py:module:function"
REFUSED = {  # name in small letters, without signs between: whose it is, and why it has no table
    "path": "PaTH (2505.16381) turns by products of matrices made from the tokens in between",
    "selectiverope": "Selective RoPE turns by angles that are made from the tokens",
    "carope": "CARoPE makes the frequencies of each head from the tokens",
    "cope": "CoPE (2405.18719) counts positions by gates that depend on the tokens",
    "dape": "DAPE (2405.14722) changes its bias by the logits of the tokens",
    "kairos": "Kairos makes the frequencies from the spectrum of each series",
    "dywpe": "DyWPE (2509.14640) makes its codes from wavelets of the signal",
    "fox": "FoX (2503.02130) adds up forget gates that are made from the tokens",
}
SHARED = {  # names of several papers: what each is here
    "hope": (
        "arXiv 2410.21216 (slow pairs stand still: rope:scaling=cut,original=N), 2505.20444 and "
        "2509.05218, which are not known here"
    ),
    "TAPE": (
        "Foumani et al., 2023 (tape, for time series) and 2501.00712, whose codes are made from "
        "the tokens in each layer and have no table"
    ),
}
WITHOUT = {  # that leave out the rotation, after training or in some layers
    "drope": "DroPE removes the rotation of all layers after training: name none for what is left",
    "swan": (
        "SWAN-GPT (2504.08719) has none in global layers, between layers with a window, which "
        "rotate: name none for the first and rope for the others, or give its config to context"
    ),
}


def refuse_known(name: str) -> None:
    """Refuse a name that is known and no encoding here, with the reason and what may be meant.

    >>> refuse_known("DroPE")
    Traceback (most recent call last):
    ...
    pefourier.errors.PefourierError: 'DroPE' has no codes of its own: DroPE removes the rotation \
of all layers after training: name none for what is left
    """
    plain = "".join(filter(str.isalnum, name.lower()))
    if plain in REFUSED:
        raise PefourierError(
            f"{shown(name)} depends on tokens and has no table of codes: {REFUSED[plain]}{FIXED}"
        )
    shared = SHARED.get(name) or SHARED.get(plain)
    if shared:
        raise PefourierError(f"{shown(name)} is the name of several encodings, which? {shared}")
    if plain in WITHOUT:
        raise PefourierError(f"{shown(name)} has no codes of its own: {WITHOUT[plain]}")
