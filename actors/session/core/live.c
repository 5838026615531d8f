/* live.c - live numbers: operands whose value a function of the user returns anew at each call of a compiled step. */
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"

#include <stdlib.h>

int
rille_live_new(struct rille_session *s, rille_live_fn *fn, void (*drop)(void *arg), void *arg, struct rille_live **out)
{
    TRY(face_session(s, __func__));
    if (!fn) return fail(E_ARG, "%s: the function is NULL", __func__);
    TRY(face_given(out, "out", __func__));
    struct rille_live *l = must_alloc(sizeof *l);
    *l = (struct rille_live){.s = s, .fn = fn, .drop = drop, .arg = arg, .nref = 1};
    LIST_PUSH(s->handles.lives, l);
    *out = l;
    return 0;
}

void
rille_live_undo(struct rille_live *l, void (*undo)(void *arg))
{
    if (face_given(l, "the live number", __func__) || face_session(l->s, __func__)) return;
    l->undo = undo;
}

void
rille_live_whole(struct rille_live *l)
{
    if (face_given(l, "the live number", __func__) || face_session(l->s, __func__)) return;
    l->whole = true;
}

void
rille_live_free(struct rille_live **lp)
{
    if (face_given(lp, "the pointer to the live number", __func__) || (*lp ? face_session((*lp)->s, __func__) : 0))
        return;
    struct rille_live *l = *lp;
    *lp = NULL;
    if (!l || --l->nref > 0) return;
    LIST_TAKE(l->s->handles.lives, l);
    if (l->drop) l->drop(l->arg);
    free(l);
}
