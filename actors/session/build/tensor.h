/* tensor.h - tensors made from bytes of the host. Session's thread. */
#ifndef RILLE_ACTORS_SESSION_BUILD_TENSOR_H
#define RILLE_ACTORS_SESSION_BUILD_TENSOR_H

#include "actors/session/core/session.h"

/* Makes a leaf with the elements of a view of the global value. The view may have any strides. */
int tensor_from_view(struct rille_session *s, const struct type *t, const struct layout *l, const struct view *whole,
                     struct rille_tensor **out);

#endif
