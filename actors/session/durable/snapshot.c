/* snapshot.c - takes snapshots (consistent copies of all variables during training) and recovers from them.
 *
 * A snapshot holds the present bytes of variables and gradients, and the counters of random values. Taking a
 * snapshot only adds references to buffers. An update overwrites a variable's bytes only if nothing else refers to
 * them, so the next update allocates new buffers. Bytes of the cluster's devices outlive the worker that wrote them
 * (segment.h), so a snapshot survives any worker. An unchanged version is stored once, however many snapshots hold
 * it.
 *
 * A host's memory is lost with the host. So with several hosts, other hosts get a second copy (replica.c) while the
 * next runs compute. Only the first snapshot waits until the copies are complete. The previous snapshot stays until
 * the new one is complete. If a host is lost before that, recovery uses the previous snapshot. The snapshot's number
 * tells scripts which snapshot was used. Digests of the bytes are checked before recovery. If no copy of some shard
 * is left, recovery uses the previous snapshot, if the user keeps two. */
#include "actors/session/durable/snapshot.h"
#include "actors/session/core/session.h"
#include "actors/session/durable/kept.h"
#include "actors/session/durable/replica.h"
#include "actors/session/run/run.h"

#include "actors/cluster/controller/files.h"
#include "actors/cluster/controller/memories.h"
#include "actors/cluster/controller/recovery.h"
#include "actors/session/build/update.h"
#include "actors/session/core/face.h"

#include <stdlib.h>
#include <string.h>

/* Kinds of copies of a variable: its value and its gradient. */
enum { VALUE, GRADIENT, NCOPY };
struct kept {
    struct rille_tensor *t;  /* weak reference: a snapshot does not keep the variable alive */
    struct copy copy[NCOPY]; /* copy[GRADIENT].store NULL: no gradient */
};
struct snapshot {
    int32_t n;
    int64_t number;
    int keep;                /* number of complete snapshots to keep, 1 or 2 */
    struct copying *copying; /* copies to other hosts in progress; NULL: none */
    bool spared;             /* the copies on other hosts are complete */
    struct copying *summing; /* computation of digests in progress; NULL: none */
    uint64_t seed, ordinal;
    struct kept_state *state; /* state that is stored with the workers, for the next controller; NULL: none */
    struct kept kept[];
};

void
snapshot_free(struct snapshot **sp)
{
    struct snapshot *p = *sp;
    *sp = NULL;
    if (!p) return;
    copying_end(&p->copying, false);
    copying_end(&p->summing, false);
    kept_state_free(&p->state);
    for (int32_t i = 0; i < p->n; i++) {
        for (int c = 0; c < NCOPY; c++) copy_drop(&p->kept[i].copy[c]);
        tensor_orphan(p->kept[i].t);
    }
    free(p);
}

/* Returns true if v has bytes or can be computed: v is not on meta devices, not part of a trace, and not lost with a
 * host. */
static bool
has_bytes(const struct val *v)
{
    bool will = v->store ? copy_is_whole(&(struct copy){.store = v->store}) : v->node && !v->node->traced;
    return will && v->layout->place->kind != DEV_META;
}

/* Returns true if a snapshot keeps the tensor: the tensor is a variable, or belongs to the state. */
static bool
is_saved(const struct rille_tensor *t, const struct rille_state *state)
{
    bool named = t->leaf;
    for (int i = 0; state && i < state->n && !named; i++) named = state->tensor[i] == t;
    return named && t->nref > 0 && has_bytes(t->val);
}

/* Computes all uncomputed variables and gradients in one run. */
static int
compute(struct rille_session *s, const struct rille_state *state, int32_t count)
{
    struct val **v = must_alloc(sizeof *v * (size_t)(2 * count + 1));
    int n = 0;
    for (struct rille_tensor *t = s->handles.tensors; t; t = t->next) {
        if (!is_saved(t, state)) continue;
        v[n++] = t->val;
        if (t->grad && has_bytes(t->grad->val)) v[n++] = t->grad->val;
    }
    int status = session_eval(s, n, v);
    free(v);
    return status;
}

static struct copy
copy_value(const struct val *v)
{
    if (v->store) store_hold(v->store);
    return (struct copy){.type = v->type, .layout = v->layout, .store = v->store};
}

static void
keep_variable(struct rille_tensor *t, struct kept *k)
{
    *k = (struct kept){.t = tensor_refer(t), .copy[VALUE] = copy_value(t->val)};
    if (t->grad && has_bytes(t->grad->val)) k->copy[GRADIENT] = copy_value(t->grad->val);
}

/* Lists all copies of the snapshot for replica.c. The caller frees the list. */
static struct copy **
copies_of(struct snapshot *p)
{
    struct copy **list = must_alloc(sizeof(*list) * (size_t)(NCOPY * p->n + 1));
    for (int32_t i = 0; i < NCOPY * p->n; i++) list[i] = &p->kept[i / NCOPY].copy[i % NCOPY];
    return list;
}

/* Begins to copy all shards to other hosts, if there are several hosts. */
static int
keep_spares(struct rille_session *s, struct snapshot *p)
{
    if (!s->cluster || cluster_memories(s->cluster) < 2) return 0;
    struct copy **list = copies_of(p);
    int status = copies_replicate(s, NCOPY * p->n, list, &p->copying);
    free(list);
    return status;
}

static void
keep_sums(struct rille_session *s, struct snapshot *p)
{
    struct copy **list = copies_of(p);
    copies_digest(s, NCOPY * p->n, list, &p->summing);
    free(list);
}

static int
end_copying(struct snapshot *p, bool whole)
{
    int status = copying_end(&p->copying, whole);
    p->spared |= !status;
    return status;
}

/* Makes the snapshot in progress the last complete one. */
static void
advance_snapshot(struct session_snapshots *h)
{
    snapshot_free(&h->before);
    h->before = h->last;
    h->last = h->taken;
    h->taken = NULL;
}

static void
drop_before(struct session_snapshots *h)
{
    if (h->last->keep < 2) snapshot_free(&h->before);
}

/* Ends the snapshot in progress. If status is 0, the snapshot becomes the last complete one; else it is dropped. */
static int
settle_snapshot(struct session_snapshots *h, int status)
{
    if (status) {
        snapshot_free(&h->taken);
        return status;
    }
    advance_snapshot(h);
    drop_before(h);
    return 0;
}

/* Completes the snapshot in progress if the copies on other hosts are ready by now. Called between runs; never
 * waits. */
static void
snapshot_look(struct rille_session *s)
{
    struct snapshot *p = s->snapshots.taken;
    if (!p || (p->copying && !copying_ended(p->copying))) return;
    /* ignores an error: if a host was lost, the next run reports the loss */
    if (settle_snapshot(&s->snapshots, end_copying(p, true))) err_clear();
}

static int
snapshot_take(struct rille_session *s, int keep, const struct rille_state *state, struct snapshot **out)
{
    int32_t n = 0;
    for (struct rille_tensor *t = s->handles.tensors; t; t = t->next) n += is_saved(t, state);
    TRY(compute(s, state, n));
    struct snapshot *p = must_alloc(sizeof *p + sizeof *p->kept * (size_t)n);
    p->seed = s->random.seed;
    p->ordinal = s->random.ordinal;
    p->number = ++s->snapshots.n;
    p->keep = keep;
    for (struct rille_tensor *t = s->handles.tensors; t; t = t->next)
        if (is_saved(t, state)) keep_variable(t, &p->kept[p->n++]);
    *out = p;
    keep_sums(s, p);
    int status = keep_spares(s, p);
    if (status) snapshot_free(out);
    return status;
}

/* Returns the snapshot's copy of a tensor's value. */
static const struct copy *
copy_of(const struct snapshot *p, const struct rille_tensor *t)
{
    for (int32_t i = 0; i < p->n; i++)
        if (p->kept[i].t == t) return &p->kept[i].copy[VALUE];
    return NULL;
}

/* Refers to the snapshot's copies of the state's tensors, by name. */
static int
keep_state(struct snapshot *p, const struct rille_state *state)
{
    struct kept_state *k = p->state = must_alloc(sizeof *k);
    k->name = ARENA_ARRAY(&k->arena, const char *, state->n + 1);
    k->copy = ARENA_ARRAY(&k->arena, const struct copy *, state->n + 1);
    k->text = arena_strdup(&k->arena, state->text);
    for (; k->n < state->n; k->n++) {
        const struct copy *c = copy_of(p, state->tensor[k->n]);
        if (!c || layout_has_partial(c->layout))
            return fail(E_STATE, "snapshot: expected a value without a pending reduction for '%s', found %s",
                        state->name[k->n], c ? "a partial one" : "none");
        k->name[k->n] = arena_strdup(&k->arena, state->name[k->n]);
        k->copy[k->n] = c;
    }
    return 0;
}

/* Stores the state with the workers, when the copies on other hosts and the digests are complete. */
static int
store_state(struct rille_session *s, struct snapshot *p, const struct rille_state *state)
{
    TRY(keep_state(p, state));
    TRY(end_copying(p, true));
    TRY(copying_end(&p->summing, true));
    return kept_store(s, p->state);
}

int
rille_snapshot(struct rille_session *s, int keep, const struct rille_state *state, int64_t *number, int64_t *oldest)
{
    TRY(face_session(s, __func__));
    TRY(face_given(number, "number", __func__));
    TRY(face_given(oldest, "oldest", __func__));
    if (keep < 1 || keep > 2) return fail(E_ARG, "snapshot: keep must be 1 or 2, found %d", keep);
    TRY(trace_refuses(s, "snapshot"));
    TRY(rille_step(s)); /* a snapshot includes the pending updates */
    struct session_snapshots *h = &s->snapshots;
    if (h->taken) TRY(settle_snapshot(h, end_copying(h->taken, true)));
    s->remote.after_run = snapshot_look;
    TRY(snapshot_take(s, keep, state, &h->taken));
    if (state) TRY(settle_snapshot(h, store_state(s, h->taken, state)));
    /* without an earlier snapshot, recovery needs this one, so waits for its copies */
    if (!h->last && h->taken) TRY(settle_snapshot(h, end_copying(h->taken, true)));
    snapshot_look(s);
    *number = h->n;
    *oldest = h->before ? h->before->number : h->last->number;
    return 0;
}

bool
rille_has_snapshot(struct rille_session *s)
{
    return !face_session(s, __func__) && (s->snapshots.last || s->snapshots.taken);
}

/* ---- comparing replicas ---- */

struct doubt {
    struct rille_tensor *t; /* variable whose replicas differed, by weak reference */
    int which;              /* copy whose replicas differed: VALUE or GRADIENT */
    struct copy copy;
};

void
doubt_free(struct doubt **dp)
{
    struct doubt *d = *dp;
    *dp = NULL;
    if (!d) return;
    copy_drop(&d->copy);
    tensor_orphan(d->t);
    free(d);
}

/* Moves the copy whose replicas differ out of the snapshot, keeps it for the replay, and fails with a text that lists
 * the replicas. */
static int
doubt_replicas(struct rille_session *s, struct kept *k, int which)
{
    struct doubt *d = must_alloc(sizeof *d);
    struct str text = {0};
    *d = (struct doubt){tensor_refer(k->t), which, k->copy[which]};
    k->copy[which] = (struct copy){0};
    str_add(&text, which == GRADIENT ? "the replicas of a gradient " : "the replicas of a variable ");
    type_print(&d->copy.type, &text);
    str_add(&text, " differ: ");
    copy_print_odd(s, &d->copy, NULL, &text);
    doubt_free(&s->snapshots.doubt);
    s->snapshots.doubt = d;
    int status = fail(
        E_VALUE,
        "%s; a processor or its memory is faulty, or the hosts run different versions of Rille or of its libraries",
        str_text(&text));
    str_free(&text);
    return status;
}

/* Finds which of the replicas that differed at the last comparison were wrong. This is known only if the same work
 * was repeated since then and the replicas agree now. */
static void
find_wrong(struct rille_session *s, const struct snapshot *p)
{
    const struct doubt *d = s->snapshots.doubt;
    for (int32_t i = 0; d && i < p->n; i++)
        if (p->kept[i].t == d->t) copy_print_odd(s, &d->copy, &p->kept[i].copy[d->which], &s->snapshots.wrong);
    doubt_free(&s->snapshots.doubt);
}

int
rille_compare_replicas(struct rille_session *s, const char **wrong)
{
    TRY(face_session(s, __func__));
    TRY(face_given(wrong, "wrong", __func__));
    struct session_snapshots *h = &s->snapshots;
    if (!rille_has_snapshot(s))
        return fail(E_STATE, "compare_replicas: expected a snapshot; rille.snapshot() makes one");
    if (h->taken) TRY(settle_snapshot(h, end_copying(h->taken, true)));
    str_clear(&h->wrong);
    struct snapshot *p = h->last;
    TRY(copying_end(&p->summing, true));
    for (int32_t i = 0; i < NCOPY * p->n; i++) {
        if (copy_agrees(&p->kept[i / NCOPY].copy[i % NCOPY])) continue;
        int status = doubt_replicas(s, &p->kept[i / NCOPY], i % NCOPY);
        snapshot_free(&h->last);
        h->last = h->before;
        h->before = NULL;
        return status;
    }
    find_wrong(s, p);
    snapshot_free(&h->before);
    *wrong = h->wrong.len ? str_text(&h->wrong) : NULL;
    return 0;
}

/* ---- recovering from a snapshot ---- */

/* Restores lost or damaged shards from other hosts, and copies shards to other hosts again. */
static int
mend_snapshot(struct rille_session *s, struct snapshot *p)
{
    struct copy **list = copies_of(p);
    bool lost = false;
    /* ignores errors, because shards lost before the computation have no digests */
    if (copying_end(&p->summing, true)) err_clear();
    int status = copies_check(s, NCOPY * p->n, list);
    for (int32_t i = 0; i < NCOPY * p->n; i++) lost |= copy_is_lost(list[i]);
    if (!status) status = lost ? copies_mend(s, NCOPY * p->n, list) : 0;
    free(list);
    if (!status && (lost || !p->spared)) status = keep_spares(s, p);
    return status ? status : end_copying(p, true);
}

static bool
is_snapshot_whole(const struct snapshot *p)
{
    for (int32_t i = 0; i < NCOPY * p->n; i++)
        if (!copy_is_whole(&p->kept[i / NCOPY].copy[i % NCOPY])) return false;
    return true;
}

static void
pass_over_taken(struct rille_session *s)
{
    struct session_snapshots *h = &s->snapshots;
    struct copy **list = copies_of(h->taken);
    str_clear(&h->passed_over);
    str_addf(&h->passed_over, "recover: of snapshot %lld, ", (long long)h->taken->number);
    copies_tell_lost(s, NCOPY * h->taken->n, list, &h->passed_over);
    free(list);
    snapshot_free(&h->taken);
}

/* Returns the latest usable snapshot. A snapshot in progress is usable if its copies are complete, or if none of its
 * shards was lost. */
static int
choose_snapshot(struct rille_session *s)
{
    struct snapshot *p = s->snapshots.taken;
    if (p && (p->spared || is_snapshot_whole(p)))
        advance_snapshot(&s->snapshots);
    else if (p)
        pass_over_taken(s);
    return s->snapshots.last ? 0 : fail(E_LOST, "recover: all hosts with the snapshot were lost");
}

static bool
is_gone(struct rille_session *s, struct snapshot *p)
{
    struct copy **list = copies_of(p);
    bool gone = copies_gone(s, NCOPY * p->n, list);
    free(list);
    return gone;
}

/* Restores the last snapshot. If no copy of some shard is left, restores the previous snapshot. */
static int
mend_latest(struct rille_session *s)
{
    struct session_snapshots *h = &s->snapshots;
    int status = mend_snapshot(s, h->last);
    if (!status || !h->before || !is_gone(s, h->last)) return status;
    str_clear(&h->passed_over);
    str_add(&h->passed_over, err_text());
    snapshot_free(&h->last);
    h->last = h->before;
    h->before = NULL;
    err_clear();
    return mend_snapshot(s, h->last);
}

static struct val *
value_of(struct rille_session *s, const struct copy *c)
{
    store_hold(c->store);
    return graph_leaf(s->graph, &c->type, c->layout, c->store);
}

static void
restore_snapshot(struct rille_session *s, const struct kept *k)
{
    struct rille_tensor *t = k->t;
    if (!t->nref) return; /* does nothing, because the program has freed the tensor since the snapshot */
    const struct copy *value = &k->copy[VALUE], *grad = &k->copy[GRADIENT];
    if (t->val->store != value->store || t->val->half_written) tensor_rebind(t, value_of(s, value));
    rille_tensor_free(&t->grad);
    if (grad->store) t->grad = tensor_new(s, value_of(s, grad), true);
}

static void
restore_all(struct rille_session *s)
{
    struct snapshot *p = s->snapshots.last;
    updates_forget(s);
    for (int32_t i = 0; i < p->n; i++) restore_snapshot(s, &p->kept[i]);
    s->random.seed = p->seed;
    s->random.ordinal = p->ordinal;
}

/* Counts losses of workers in succession at the same operator call, without a new snapshot since. Fails at the
 * third loss, because the job would be lost there again and again. */
static int
count_loss(struct rille_session *s)
{
    enum { MOST = 3 };
    struct session_snapshots *h = &s->snapshots;
    struct str place = s->remote.place;
    bool same = place.len && h->loss.snapshot == h->n && !strcmp(place.text, str_text(&h->loss.place));
    str_free(&h->loss.place);
    h->loss.place = place;
    s->remote.place = (struct str){0};
    h->loss.snapshot = h->n;
    h->loss.times = same ? h->loss.times + 1 : 1;
    if (h->loss.times < MOST) return 0;
    return fail(E_STATE,
                "recover: expected to get past the place of the last loss, found %d losses in succession there, after "
                "the same snapshot: %s; mend the program, or its data",
                MOST, place.text);
}

/* Recovers until the cluster is complete and holds a complete snapshot. A worker lost during recovery counts as one
 * more loss. If the lost worker was started by this recovery, the recovery fails, because the worker would probably
 * be lost again. */
static int
regain(struct rille_session *s, int workers)
{
    struct cluster_loss l;
    for (int left = s->cluster ? cluster_world(s->cluster) : 0;; left--) {
        int status = s->cluster && (workers || !cluster_stands(s->cluster)) ? cluster_recover(s->cluster, workers) : 0;
        if (!status && s->cluster) run_renew_devices(s);
        if (!status) status = choose_snapshot(s);
        if (!status) status = mend_latest(s);
        /* some shards have other places now */
        if (!status && s->snapshots.last->state) status = kept_store(s, s->snapshots.last->state);
        bool again = s->cluster && (!status || status == E_LOST) && cluster_lost(s->cluster, 0, &l) && l.again;
        if (!again || !left) return status;
        err_clear();
    }
}

int
rille_recover(struct rille_session *s, int workers, int64_t *number, const char **why)
{
    TRY(face_session(s, __func__));
    TRY(face_given(number, "number", __func__));
    TRY(face_given(why, "why", __func__));
    TRY(trace_refuses(s, "recover"));
    if (!rille_has_snapshot(s)) return fail(E_STATE, "recover: no snapshot to return to; rille.snapshot() makes one");
    if (s->snapshots.taken) end_copying(s->snapshots.taken, false);
    if (!s->cluster && workers) return fail(E_STATE, "recover: this session is a single process without workers");
    str_clear(&s->snapshots.passed_over);
    TRY(count_loss(s));
    TRY(regain(s, workers));
    drop_before(&s->snapshots);
    restore_all(s);
    *number = s->snapshots.last->number;
    *why = s->snapshots.passed_over.len ? s->snapshots.passed_over.text : NULL;
    return 0;
}

bool
rille_can_admit(struct rille_session *s)
{
    return !face_session(s, __func__) && s->cluster && cluster_can_grow(s->cluster);
}

int
rille_admit(struct rille_session *s)
{
    bool grew;
    TRY(face_session(s, __func__));
    TRY(trace_refuses(s, "admit"));
    struct session_snapshots *h = &s->snapshots;
    if (!rille_can_admit(s)) return 0;
    if (h->taken) TRY(settle_snapshot(h, end_copying(h->taken, true)));
    if (h->last) TRY(copying_end(&h->last->summing, true));
    TRY(cluster_grow(s->cluster, &grew));
    if (!grew) return 0;
    run_renew_devices(s);
    return 0;
}
