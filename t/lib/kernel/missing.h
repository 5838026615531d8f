/* missing.h - finds valid signatures that the rule of an operator does not derive. Tries every combination of
 * layouts on two ranks.
 *
 * A combination makes sense if the sizes of each rank's shards fit the rule. sound_each_missing() reports a
 * combination if it computes the right result, is not derived, and does not follow from a stronger combination. */
#ifndef RILLE_T_MISSING_H
#define RILLE_T_MISSING_H

#include "t/lib/kernel/sound.h"
#include "runtime/tensor/atlas.h"

/* Lists the SBP entries that a tensor may have on one axis: S of each dimension, B, and P of three kinds. Bools have
 * no P(sum). */
static inline int
sound_options(const struct type *t, struct sbp *v)
{
    int n = 0;
    for (int d = 0; d < t->ndim; d++) v[n++] = (struct sbp){.kind = SBP_S, .axis = (uint8_t)d};
    v[n++] = (struct sbp){.kind = SBP_B};
    for (int r = t->dtype == DT_BOOL ? RED_MAX : RED_SUM; r <= RED_MIN; r++)
        v[n++] = (struct sbp){.kind = SBP_P, .reduce = (uint8_t)r};
    return n;
}

/* Returns true if operand k is an index. Partial indices are meaningless, because an index selects elements. */
static inline bool
sound_is_index(const struct sound *s, int k)
{
    return k < s->rule.nin && k < OP_OPERAND && s->sample.call.op->in[k].flags & IN_INDEX;
}

/* Returns true if all operands have the same local sizes of the factors that they share. Otherwise the call is
 * invalid on this rank. */
static inline bool
sound_sizes_agree(const struct sound *s, const struct type *local, int noperand)
{
    int64_t size[RULE_FACTOR];
    for (int f = 0; f < s->rule.nfactor; f++) size[f] = -1;
    for (int merged = 0; merged < 2; merged++)
        for (int k = 0; k < noperand; k++) {
            const struct rule_operand *o = &s->rule.operand[k];
            for (int d = 0; d < o->ndim && !o->ignored; d++) {
                int64_t known = 1, *open = NULL, n = local[k].dim[d];
                int nopen = 0;
                if (!merged && o->dim[d].nfactor > 1) continue;
                for (int i = 0; i < o->dim[d].nfactor; i++) {
                    int64_t *f = &size[o->dim[d].factor[i]];
                    known *= *f < 0 ? 1 : *f;
                    if (*f < 0) open = f, nopen++;
                }
                if (nopen == 1 && known && n % known == 0) *open = n / known, known = n;
                if (nopen < 2 && known != n) return false;
            }
        }
    return true;
}

/* Returns true if v splits a dimension of result k whose size no operand has: the size comes from the call's
 * attributes. Such a signature is invalid, because each rank computes the complete dimension. */
static inline bool
sound_cuts_new(const struct sound *s, int k, struct sbp v)
{
    if (v.kind != SBP_S || k < s->rule.nin) return false;
    const struct rule_dim *dim = &s->rule.operand[k].dim[v.axis];
    for (int i = 0; i < dim->nfactor; i++)
        if (!s->rule.factor[dim->factor[i]].in_input && !s->rule.factor[dim->factor[i]].made) return true;
    return false;
}

static inline bool
sound_is_derived(const struct sound *s, const struct sbp *v)
{
    for (int g = 0; g < s->list.nsig; g++) {
        bool same = true;
        for (int k = 0; k < s->noperand && same; k++) {
            const struct sbp w = s->list.sig[g].v[k];
            same = s->rule.operand[k].ignored || (v[k].kind == w.kind && (v[k].kind != SBP_S || v[k].axis == w.axis) &&
                                                  (v[k].kind != SBP_P || v[k].reduce == w.reduce));
        }
        if (same) return true;
    }
    return false;
}

typedef void sound_missing_fn(void *arg, const struct sound *s, const struct sbp *v);

enum { MISSING_RANKS = 2, MISSING_OPTIONS = MAX_DIM + 4 };

/* The options of operand or result k: SBP entries and their layouts (NULL: the rule ignores the operand). */
struct sound_option {
    int n;
    struct sbp v[MISSING_OPTIONS];
    const struct layout *layout[MISSING_OPTIONS];
};

struct sound_walk {
    struct sound *s;
    const struct place *place;
    sound_missing_fn *found;
    void *arg;
    struct sound_option option[SAMPLE_IN + OP_OUT];
    struct sbp v[SAMPLE_IN + OP_OUT];
    const struct layout *layout[SAMPLE_IN + OP_OUT];
    struct type local[MISSING_RANKS][SAMPLE_IN + OP_OUT]; /* by rank: types of the shards in these layouts */
    uint64_t inputs;                                      /* number of combinations of operand layouts tried so far */
    uint64_t known; /* key (sound_run_key) of the last computation of all ranks, whose outcome `may` holds */
    bool may[OP_OUT][MISSING_OPTIONS];
};

/* Returns true if the layouts of the first n operands and results make sense on every rank. */
static inline bool
sound_makes_sense(const struct sound_walk *w, int n)
{
    for (int pos = 0; pos < MISSING_RANKS; pos++)
        if (!sound_sizes_agree(w->s, w->local[pos], n)) return false;
    return true;
}

/* number of computations with new values per combination, because a wrong signature may hold by chance for one set
 * of values */
enum { MISSING_ROUNDS = 6 };

static inline bool
sound_holds_often(struct sound *s, const struct place *p, const struct layout **layout)
{
    bool holds = true;
    for (s->round = 0; s->round < MISSING_ROUNDS && holds; s->round++) holds = sound_holds(s, p, layout);
    s->round = 0;
    return holds;
}

/* Replaces P(max) or P(min) of a result by B. Returns true if the combination then holds, too. The combination
 * with B is the stronger one, because a replicated value is its own maximum and minimum, so the combination with P
 * need not be reported. */
static inline bool
sound_says_less(struct sound_walk *w)
{
    struct sound *s = w->s;
    const struct layout **layout = w->layout;
    for (int k = s->rule.nin; k < s->noperand; k++) {
        if (w->v[k].kind != SBP_P || w->v[k].reduce == RED_SUM) continue;
        const struct layout *was = layout[k];
        layout[k] = layout_broadcast(s->atlas, w->place);
        bool holds = sound_holds_often(s, w->place, layout);
        layout[k] = was;
        if (holds) return true;
    }
    return false;
}

/* Returns a key of everything that determines the ranks' computation: the operands' layouts and the split dimensions
 * of the results. */
static inline uint64_t
sound_run_key(const struct sound_walk *w)
{
    uint64_t key = w->inputs;
    for (int k = w->s->rule.nin; k < w->s->noperand; k++)
        key = key * (MAX_DIM + 1) + (w->v[k].kind == SBP_S ? w->v[k].axis : MAX_DIM);
    return key;
}

/* Runs the computation of all ranks once. Returns false if the shards of a result do not join to the complete
 * result by any layout. This quick check excludes most combinations. */
static inline bool
sound_may_hold(struct sound_walk *w)
{
    struct sound *s = w->s;
    bool all = true, fresh = w->known != sound_run_key(w);
    w->known = sound_run_key(w);
    bool runs = !fresh || (!sound_fill(s, 0) && !sound_ranks(s, w->layout, w->place));
    for (int k = s->rule.nin; k < s->noperand; k++) {
        const struct sound_option *o = &w->option[k];
        for (int i = 0; i < o->n; i++) {
            bool *may = &w->may[k - s->rule.nin][i];
            bool cut_alike = (o->v[i].kind == SBP_S) == (w->v[k].kind == SBP_S) &&
                             (o->v[i].kind != SBP_S || o->v[i].axis == w->v[k].axis);
            if (fresh) *may = runs && cut_alike && sound_joins(s, k, o->layout[i]);
            if (o->layout[i] == w->layout[k]) all &= *may;
        }
    }
    return all;
}

static inline void
sound_try_missing(struct sound_walk *w)
{
    struct sound *s = w->s;
    if (sound_is_derived(s, w->v) || !sound_may_hold(w)) return;
    if (sound_holds_often(s, w->place, w->layout) && !sound_says_less(w)) w->found(w->arg, s, w->v);
}

/* Tries each layout option of operand k (with s->shares, for a share of the first three layouts), each with all options
 * of later operands (by recursion). Skips an option if the layouts chosen so far already make no sense. */
static inline void
sound_walk_from(struct sound_walk *w, int k)
{
    struct sound *s = w->s;
    w->inputs += k == s->rule.nin;
    if (k == MIN(3, s->rule.nin) && s->shares && !share_next()) return;
    if (k == s->noperand) {
        sound_try_missing(w);
        return;
    }
    const struct sound_option *o = &w->option[k];
    const struct type *t = sound_type(s, k);
    for (int i = 0; i < o->n; i++) {
        bool idle = o->v[i].kind == SBP_P && sound_is_index(s, k);
        if (idle || sound_cuts_new(s, k, o->v[i])) continue;
        w->v[k] = o->v[i];
        w->layout[k] = o->layout[i];
        for (int pos = 0; pos < MISSING_RANKS; pos++)
            w->local[pos][k] = o->layout[i] ? layout_shard(o->layout[i], t, pos) : *t;
        if (sound_makes_sense(w, k + 1)) sound_walk_from(w, k + 1);
    }
}

static inline void
sound_each_missing(struct sound *s, sound_missing_fn *found, void *arg)
{
    static const int32_t ranks[] = {MISSING_RANKS};
    struct sound_walk w = {.s = s, .place = sound_place(s, 1, ranks), .found = found, .arg = arg};
    for (int k = 0; k < s->noperand; k++) {
        struct sound_option *o = &w.option[k];
        bool ignored = s->rule.operand[k].ignored;
        o->n = ignored ? 1 : sound_options(sound_type(s, k), o->v);
        if (ignored) o->v[0] = (struct sbp){.kind = SBP_B};
        for (int i = 0; i < o->n && !ignored; i++) layout_new(s->atlas, w.place, &o->v[i], NULL, &o->layout[i]);
    }
    sound_walk_from(&w, 0);
}

#endif
