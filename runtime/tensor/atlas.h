/* atlas.h - interns placements and layouts. An atlas belongs to a session and its thread. */
#ifndef RILLE_RUNTIME_TENSOR_ATLAS_H
#define RILLE_RUNTIME_TENSOR_ATLAS_H

#include "runtime/tensor/layout.h"

struct atlas *atlas_new(void);
void atlas_free(struct atlas **a);

/* Interns a placement. axis: naxis sizes; rank: as many device numbers as the product of the sizes. E_PLACE: there
 * are no ranks, too many axes, or a rank that is negative or repeated. The session checks whether the devices exist
 * (device.h). */
int place_new(struct atlas *a, int kind, int naxis, const int32_t *axis, const int32_t *rank, const struct place **out);
/* Returns the mesh position of a device number; -1: the placement does not contain the device. */
int place_find(const struct place *p, int rank);
/* Returns the coordinates of a mesh position, one per axis. */
void place_coord(const struct place *p, int pos, int32_t *coord);

/* Interns a layout. order NULL: mesh order. E_SBP: `order` is no permutation, or the layout mixes two kinds of P.
 * layout_fits() checks whether a layout is valid for a tensor. */
int layout_new(struct atlas *a, const struct place *p, const struct sbp *sbp, const uint8_t *order,
               const struct layout **out);
/* returns the layout with B on every axis */
const struct layout *layout_broadcast(struct atlas *a, const struct place *p);

/* Return true if this atlas created the placement or layout. */
bool atlas_has_place(const struct atlas *a, const struct place *p);
bool atlas_has_layout(const struct atlas *a, const struct layout *l);

/* Checks that *l fits the type (layout_fits), and replaces *l by the layout without units that change nothing. E_SBP.
 */
int layout_settle(struct atlas *a, const struct type *t, const struct layout **l);

#endif
