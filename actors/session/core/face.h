/* face.h - argument checks at the start of every function of rille.h: handles exist and belong to this session, and
 * the calling process and thread are the session's. A mistake of the host program causes an error that names the
 * function, not a crash. A child made by fork() has none of the session's threads, so each call would wait for ever.
 *
 * The checks return 0, or E_ARG or E_STATE after fail(). who: name of the public function. Only the thread that
 * opened a session may use it. Any argument of a face_ function may be NULL. The checks cannot detect freed handles.
 * The checks also reset the line that rille_error_line returns. */
#ifndef RILLE_SESSION_FACE_H
#define RILLE_SESSION_FACE_H

#include "actors/session/core/session.h"

#include <stddef.h>

/* Returns an address that identifies the calling thread: it is unique to the thread. */
const void *face_thread(void);
/* Returns a number that identifies this process: it differs from the numbers of its parent and of its children by
 * fork(). */
int face_process(void);

int face_session(const struct rille_session *s, const char *who);
/* Checks that this process opened the session. Used by functions that any thread may call. Async-signal-safe if
 * the check passes. */
int face_own(const struct rille_session *s, const char *who);
/* Copies an option struct of the caller, which may be compiled with another version of rille.h. Fields that the
 * caller's version lacks become 0. first: size of the struct in its first version; used if the caller's size field
 * is 0 (UP_TO). known: size of the struct in this version; becomes the size field of the copy. */
int face_options(const void *from, size_t first, size_t known, void *to, const char *who);
/* size of a struct up to and including this field */
#define UP_TO(type, field) (offsetof(struct type, field) + sizeof((struct type *)0)->field)
int face_tensor(const struct rille_tensor *t, const char *who);
/* Check that each argument is not NULL and belongs to this session: n tensors, operands, a layout, a placement. */
int face_tensors(const struct rille_session *s, int n, struct rille_tensor *const *t, const char *who);
int face_args(const struct rille_session *s, int n, const struct rille_arg *args, const char *who);
int face_attrs(int n, const struct rille_attr *attrs, const char *who);
int face_layout(const struct rille_session *s, const struct rille_layout *l, const char *who);
int face_place(const struct rille_session *s, const struct rille_place *p, const char *who);
/* Checks that a pointer of a type without a face_ check is not NULL. what: the argument's name in the error text. */
int face_given(const void *p, const char *what, const char *who);
int face_shape(int ndim, const int64_t *shape, const char *who);
/* face_type makes a type from dtype and shape and checks both. face_move checks that both layouts fit the type. */
int face_type(const char *dtype, int ndim, const int64_t *shape, const char *who, struct type *out);
int face_move(const struct rille_session *s, const struct type *t, const struct rille_layout *from,
              const struct rille_layout *to, const char *who);

#endif
