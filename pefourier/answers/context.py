"""How is it told how far a model's positions reach? The pictures of `pefourier context`."""

from pefourier.answers.context_chart import bands_charts
from pefourier.answers.context_figures import wavelengths
from pefourier.answers.frame import framed

TOLD = framed("context", chart=bands_charts, figure=wavelengths)
