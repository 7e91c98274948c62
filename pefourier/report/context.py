"""How is it told how far a model's positions reach? The pictures of `pefourier context`."""

from pefourier.report.context_chart import bands_charts
from pefourier.report.context_figures import wavelengths
from pefourier.report.frame import framed

TOLD = framed("context", chart=bands_charts, figure=wavelengths)
