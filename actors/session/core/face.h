/* face.h - checks of arguments that all functions of rille.h make first: handles exist and belong to this session,
 * and the calling thread is the session's. A mistake of the host program is an error that names the function, never
 * a crash.
 *
 * Return 0, or E_ARG or E_STATE after fail(). who: the function's name. A session's thread is the one that opened
 * the session. Any argument of a face_ function may be NULL; freed handles cannot be detected. The checks also set
 * the line for rille_error_line. */
#ifndef RILLE_SESSION_FACE_H
#define RILLE_SESSION_FACE_H

#include "actors/session/core/session.h"

/* Returns the mark of the calling thread, an address that is unique to the thread. */
const void *face_thread(void);

int face_session(const struct rille_session *s, const char *who);
int face_tensor(const struct rille_tensor *t, const char *who);
/* Check that n tensors, operands, a layout, a placement belong to this session. */
int face_tensors(const struct rille_session *s, int n, struct rille_tensor *const *t, const char *who);
int face_args(const struct rille_session *s, int n, const struct rille_arg *args, const char *who);
int face_attrs(int n, const struct rille_attr *attrs, const char *who);
int face_layout(const struct rille_session *s, const struct rille_layout *l, const char *who);
int face_place(const struct rille_session *s, const struct rille_place *p, const char *who);
/* Checks that any other pointer is not NULL; `what` names the pointer. */
int face_given(const void *p, const char *what, const char *who);
int face_shape(int ndim, const int64_t *shape, const char *who);
/* face_type makes a valid type of its parts; face_move checks that both layouts fit the type. */
int face_type(const char *dtype, int ndim, const int64_t *shape, const char *who, struct type *out);
int face_move(const struct rille_session *s, const struct type *t, const struct rille_layout *from,
              const struct rille_layout *to, const char *who);

#endif
