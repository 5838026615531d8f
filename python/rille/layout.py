"""Placements and layouts: the devices of a tensor, and how the tensor is distributed over them."""

import numbers

from .library import c_text, check, ffi, lib, owned_text, text
from .session import current


class Placement:
    """The devices of a tensor. Equal placements compare equal."""

    def __init__(self, session, pointer):
        self.session, self.place = session, pointer

    @property
    def c_pointer(self):
        """Returns the C placement, which belongs to the session."""
        self.session.pointer
        return self.place

    @property
    def kind(self):
        """Returns the kind of the devices: "cpu", "cuda" or "meta"."""
        return text(lib.rille_place_kind(self.c_pointer))

    @property
    def shape(self):
        """Returns the sizes of the mesh axes as a tuple."""
        sizes = ffi.new("int32_t[]", lib.RILLE_AXES)
        return tuple(sizes[0 : lib.rille_place_axes(self.c_pointer, sizes)])

    @property
    def ranks(self):
        """Returns the numbers of the devices in mesh order."""
        ranks = ffi.new("int32_t **")
        n = lib.rille_place_ranks(self.c_pointer, ranks)
        return list(ranks[0][0:n])

    def __eq__(self, other):
        return isinstance(other, Placement) and self.place == other.place

    def __hash__(self):
        return hash(self.place)

    def __repr__(self):
        return owned_text(lib.rille_place_text(self.c_pointer))


def _mesh(ranks):
    """Returns the shape of nested lists, and their entries in order."""
    if not isinstance(ranks, (list, tuple, range)):
        return (), [ranks]
    parts = [_mesh(r) for r in ranks]
    if any(shape != parts[0][0] for shape, _ in parts):
        raise ValueError(f"placement: the lists of a mesh must have equal lengths, found {ranks!r}")
    return (len(parts), *(parts[0][0] if parts else ())), [r for _, flat in parts for r in flat]


def placement(kind, ranks):
    """Returns a placement.

    kind       "cpu", "cuda" or "meta"
    ranks      list of device numbers; nested lists make a mesh of several axes: [[0, 1], [2, 3]]
    returns    a Placement
    errors     an unknown kind, a device that the session does not have
    """
    try:
        name = c_text(kind)
    except (TypeError, ValueError):
        raise TypeError(f'placement: kind must be "cpu", "cuda" or "meta", found {kind!r}') from None
    session, out = current(), ffi.new("struct rille_place **")
    shape, flat = _mesh(ranks)
    if wrong := [r for r in flat if not isinstance(r, numbers.Integral) or not 0 <= r < 2**31]:
        raise TypeError(f"placement: ranks must be numbers of devices from 0, found {wrong[0]!r}")
    check(
        lib.rille_place(
            session.at(), name, len(shape), ffi.new("int32_t[]", shape), ffi.new("int32_t[]", flat), out
        )
    )
    return Placement(session, out[0])


class sbp:
    """Names of distributions over one mesh axis; the strings "S(0)", "B" and "P" mean the same."""

    broadcast = "B"
    partial_sum = "P"

    @staticmethod
    def split(axis, unit=1):
        """Returns the distribution that splits this axis of the tensor into shards of complete units.

        axis       axis of the tensor; negative axes count from the end
        unit       number of adjacent elements that stay on one rank
        """
        return f"S({axis}, unit {unit})" if unit > 1 else f"S({axis})"


def layout(session, place, distribution, ndim=-1):
    """Returns the C layout of a placement and an SBP (one text, or one per mesh axis); NULL without either."""
    if place is None and distribution is None:
        return ffi.NULL
    if place is not None and not isinstance(place, Placement):
        raise TypeError(f"placement must be made by rille.placement(kind, ranks), found {place!r}")
    if place is None:
        raise TypeError(f'sbp {distribution!r} needs a placement: placement = rille.placement("cpu", [0, 1])')
    if distribution in (None, "auto"):
        distribution = ["B"] * len(place.shape)
    texts = [distribution] if isinstance(distribution, str) else distribution
    try:
        kept = [c_text(t) for t in texts] if isinstance(texts, (list, tuple)) else []
    except (TypeError, ValueError):
        kept = []
    if not kept:
        raise TypeError(
            f'sbp must be a text such as "S(0)", or a list with one text for each mesh axis, found {texts!r}'
        ) from None
    out = ffi.new("struct rille_layout **")
    check(lib.rille_layout(session.pointer, place.c_pointer, len(kept), ffi.new("char *[]", kept), ffi.NULL, ndim, out))
    return out[0]
