/* face.h - what the functions of rille.h ask before anything else: is it there, is it this session's, is this its
 * thread? A mistake of the host program is an error that names the function, never a crash.
 *
 * 0, or E_ARG, E_STATE after fail(). who: the function's name. A session's thread is the one that opened it. Any
 * argument of a face_ function may be NULL; none can tell a freed handle. They also name the line for rille_error_line.
 */
#ifndef RILLE_SESSION_FACE_H
#define RILLE_SESSION_FACE_H

#include "actors/session/session.h"

struct rille_graph;

/* The mark of the calling thread: its address is the thread's own. */
const void *face_thread(void);

int face_session(const struct rille_session *s, const char *who);
int face_tensor(const struct rille_tensor *t, const char *who);
int face_graph(const struct rille_graph *g, const char *who);
/* Of this session: n tensors, operands, a layout, a placement. */
int face_tensors(const struct rille_session *s, int n, struct rille_tensor *const *t, const char *who);
int face_args(const struct rille_session *s, int n, const struct rille_arg *args, const char *who);
int face_attrs(int n, const struct rille_attr *attrs, const char *who);
int face_layout(const struct rille_session *s, const struct rille_layout *l, const char *who);
int face_place(const struct rille_session *s, const struct rille_place *p, const char *who);
/* Any other pointer: what it is. */
int face_given(const void *p, const char *what, const char *who);
int face_shape(int ndim, const int64_t *shape, const char *who);
/* A type that may be, of its parts as they come in; one that both layouts fit. */
int face_type(const char *dtype, int ndim, const int64_t *shape, const char *who, struct type *out);
int face_move(const struct rille_session *s, const struct type *t, const struct rille_layout *from,
              const struct rille_layout *to, const char *who);

#endif
