# SPDX-License-Identifier: MIT
"""The functions of the extension fft of the array API standard, for arrays and for nodes. There are no complex dtypes:
a complex array has one more axis, the last, with the real and the imaginary part. `axis` and `axes` count without it."""
import numpy

from libcompute import _core, _through
from libcompute._create import arange, asarray
from libcompute._dtypes import float32

__all__ = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
           "rfftfreq", "rfftn"]

OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
MOST_AXES = 3  # of one call of the library


# ---- Along one axis ----------------------------------------------------------------------------------------------


def _length(n):
    if n is not None and n < 1:
        raise ValueError(f"{n} points")
    return n or 0


def fft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform of a complex array, cut or extended with zeros to n points."""
    return _core.fft(x, _length(n), axis, norm)


def ifft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of fft."""
    return _core.ifft(x, _length(n), axis, norm)


def rfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The first n // 2 + 1 points of the transform of a real array, complex."""
    return _core.rfft(x, _length(n), axis, norm)


def irfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of rfft: n real points, without n an even number of them."""
    return _core.irfft(x, _length(n), axis, norm)


def _conjugate(x):
    signs = numpy.array([1, -1], dtype=numpy.float32)
    signs = asarray(signs, device=x.device) if isinstance(x, _core.Array) else x.graph.constant(signs)
    return x * _core.cast(signs, x.dtype)


def hfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The transform, n real points, of a complex array that is half of a Hermitian one."""
    return irfft(_conjugate(x), n=n, axis=axis, norm=OPPOSITE[norm])


def ihfft(x, /, *, n=None, axis=-1, norm="backward"):
    """The inverse of hfft."""
    return _conjugate(rfft(x, n=n, axis=axis, norm=OPPOSITE[norm]))


# ---- Along several axes ------------------------------------------------------------------------------------------


def _axes(rank, s, axes):
    """Axes that count from 0, and a length or None for each."""
    if axes is None:
        axes = range(rank - (rank if s is None else len(s)), rank)
    axes = [axis % rank if -rank <= axis < rank else axis for axis in axes]
    s = [None] * len(axes) if s is None else list(s)
    if len(s) != len(axes) or not axes:
        raise ValueError(f"{len(s)} lengths for {len(axes)} axes")
    return axes, s


def _along(x, s, axes, norm, all_of_them, one):
    """Up to three axes in one call, others one after another."""
    if len(axes) <= MOST_AXES and s == [None] * len(axes):
        return all_of_them(x, norm, axes)
    for n, axis in zip(s, axes):
        x = one(x, n=n, axis=axis, norm=norm)
    return x


def fftn(x, /, *, s=None, axes=None, norm="backward"):
    """The transform along several axes."""
    axes, s = _axes(x.ndim - 1, s, axes)
    return _along(x, s, axes, norm, _core.fftn, fft)


def ifftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of fftn."""
    axes, s = _axes(x.ndim - 1, s, axes)
    return _along(x, s, axes, norm, _core.ifftn, ifft)


def rfftn(x, /, *, s=None, axes=None, norm="backward"):
    """The transform of a real array along several axes. It has the first half of the last one of them."""
    axes, s = _axes(x.ndim, s, axes)
    made = rfft(x, n=s[-1], axis=axes[-1], norm=norm)
    return _along(made, s[:-1], axes[:-1], norm, _core.fftn, fft) if axes[:-1] else made


def irfftn(x, /, *, s=None, axes=None, norm="backward"):
    """The inverse of rfftn."""
    axes, s = _axes(x.ndim - 1, s, axes)
    made = _along(x, s[:-1], axes[:-1], norm, _core.ifftn, ifft) if axes[:-1] else x
    return irfft(made, n=s[-1], axis=axes[-1], norm=norm)


# ---- Frequencies -------------------------------------------------------------------------------------------------


def fftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the n points of a transform, for samples at a distance d."""
    steps = arange(n, dtype=dtype or float32, device=device)
    return _core.div(_core.sub(steps, n * _core.cast(_core.greater_equal(steps, (n + 1) // 2), steps.dtype)), n * d)


def rfftfreq(n, /, *, d=1.0, dtype=None, device=None):
    """The frequencies of the n // 2 + 1 points of a real transform."""
    return _core.div(arange(n // 2 + 1, dtype=dtype or float32, device=device), n * d)


_fftshift, _ifftshift = _through.both("fftshift"), _through.both("ifftshift")


def fftshift(x, /, *, axes=None):
    """Frequency 0 moved to the middle of all axes. Here axes count every axis: leave out that of parts."""
    return _fftshift(x, axes)


def ifftshift(x, /, *, axes=None):
    """The inverse of fftshift."""
    return _ifftshift(x, axes)
