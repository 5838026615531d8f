/* ranks.c - tests plans for a set of ranks: the plan for a set must equal the set's part of the plan for all ranks.
 *
 * A seed deals the devices of a pair of layouts into sets. The plan of each set is compared with the full plan step
 * by step. The reads between the set and other ranks, in both directions, are compared with all reads of the full
 * plan. So the plans of all sets together are the full plan, and the plans of both sides of a read agree. The same
 * holds for hierarchical reductions with random segments. The memory of a plan must be proportional to the exchanged
 * bytes, also on 1,024 ranks. */
#include "runtime/device/device.h"
#include "t/lib/plan/moves.h"
#include "boxing/border.h"
#include "boxing/plan.h"

static struct arena arena;
static long npair, nrelay, nread, nwrong;

static void
complain(const char *what, const struct box_plan *p)
{
    if (nwrong++ <= 10) diag_move(what, &p->type, p->from, p->to);
}

/* ---- choosing a set of ranks ---- */

struct set {
    struct box_ranks ranks;
    bool *from, *to; /* by mesh position: true if the position's device belongs to the set */
};

static const int32_t *
positions(const bool *in, int32_t n, int32_t *count)
{
    int32_t *pos = ARENA_ARRAY(&arena, int32_t, n);
    *count = 0;
    for (int32_t i = 0; i < n; i++)
        if (in[i]) pos[(*count)++] = i;
    return pos;
}

/* Returns a set of ranks: the mesh positions whose device is assigned to set `number`. of: number of a device's
 * set, by device kind and device. */
static struct set
set_of(const struct box_plan *p, const uint8_t *of, int number)
{
    const struct place *f = p->from->place, *t = p->to->place;
    struct set s = {.from = ARENA_ARRAY(&arena, bool, f->nrank), .to = ARENA_ARRAY(&arena, bool, t->nrank)};
    for (int32_t i = 0; i < f->nrank; i++) s.from[i] = of[f->kind * MAX_MESH + f->rank[i]] == number;
    for (int32_t i = 0; i < t->nrank; i++) s.to[i] = of[t->kind * MAX_MESH + t->rank[i]] == number;
    s.ranks.from = positions(s.from, f->nrank, &s.ranks.nfrom);
    s.ranks.to = positions(s.to, t->nrank, &s.ranks.nto);
    return s;
}

/* ---- comparing steps of plans ---- */

static bool
same_source(const struct box_plan *part, const struct box_source *a, const struct box_plan *whole,
            const struct box_source *b, const struct set *s)
{
    if (a->rank != b->rank || a->pos != b->pos) return false;
    if (b->stage == BOX_PART) return a->stage == BOX_PART;
    if (whole->stage[b->stage].work.pos != b->pos) return false;
    if (!s->from[box_source_pos(whole, b)]) return a->stage == BOX_ELSEWHERE;
    return a->stage >= 0 && a->stage < part->nstage && part->stage[a->stage].work.pos == a->pos;
}

static bool
same_work(const struct box_plan *part, const struct box_work *v, const struct box_plan *whole, const struct box_work *w,
          const struct set *s)
{
    bool same = v->rank == w->rank && v->pos == w->pos && v->nstep == w->nstep;
    for (int32_t i = 0; same && i < v->nstep; i++) {
        const struct box_step *x = &v->step[i], *y = &w->step[i];
        same = x->verb == y->verb && x->reduce == y->reduce && x->nsource == y->nsource &&
               !memcmp(x->slice, y->slice, sizeof *x->slice);
        for (int32_t k = 0; same && k < x->nsource; k++)
            same = same_source(part, &x->source[k], whole, &y->source[k], s);
    }
    return same;
}

static int64_t
received(const struct box_plan *p, const struct box_plan *whole)
{
    int64_t n = 0;
    for (int32_t i = 0; i < p->nrank; i++)
        for (int32_t k = 0; k < whole->nrank; k++)
            if (whole->rank[k] == p->rank[i]) n += whole->received[k];
    return n;
}

static void
check_steps(const struct box_plan *part, const struct box_plan *whole, const struct set *s)
{
    int32_t stage = 0, n = 0;
    bool one_kind = whole->from->place->kind == whole->to->place->kind;
    bool same = part->alias == whole->alias && (!one_kind || part->bytes == received(part, whole));
    for (int32_t i = 0; i < whole->nstage; i++) {
        if (!s->from[box_stage_pos(whole, whole->stage[i].work.pos)]) continue;
        same = same && stage < part->nstage && part->stage[stage].numel == whole->stage[i].numel &&
               same_work(part, &part->stage[stage].work, whole, &whole->stage[i].work, s);
        stage++;
    }
    for (int32_t i = 0; i < whole->npart; i++) {
        if (!s->to[i]) continue;
        same = same && n < part->npart && same_work(part, &part->part[n], whole, &whole->part[i], s) &&
               part->part[part->part[n].same].step == part->part[n].step;
        n++;
    }
    if (!same || stage != part->nstage || n != part->npart) complain("steps differ", whole);
}

/* ---- comparing reads between ranks ---- */

struct reads {
    int32_t n, capacity;
    struct box_read *read;
};

static int
by_reader(const void *a, const void *b)
{
    const struct box_read *x = a, *y = b;
    int64_t key[][2] = {{y->to_stage, x->to_stage}, {x->to, y->to}, {y->from_stage, x->from_stage}, {x->from, y->from}};
    for (size_t i = 0; i < countof(key); i++)
        if (key[i][0] != key[i][1]) return key[i][0] < key[i][1] ? -1 : 1;
    for (int d = 0; d < MAX_DIM; d++)
        if (x->slice->lo[d] != y->slice->lo[d]) return x->slice->lo[d] < y->slice->lo[d] ? -1 : 1;
    return 0;
}

/* Adds the reads between the set and other ranks to a list. in: true: those by the set; false: those by the other
 * ranks. */
static void
add_reads(struct reads *r, const struct box_plan *p, const struct box_work *w, bool stage, const struct set *s, bool in)
{
    bool mine = stage ? s->from[box_stage_pos(p, w->pos)] : s->to[w->pos];
    for (int32_t i = 0; mine == in && i < w->nstep; i++)
        for (int32_t k = 0; k < w->step[i].nsource; k++) {
            const struct box_source *from = &w->step[i].source[k];
            if (s->from[box_source_pos(p, from)] == in) continue;
            if (r->n == r->capacity)
                r->read = must_realloc(r->read, sizeof *r->read * (size_t)(r->capacity = 2 * r->capacity + 8));
            r->read[r->n++] = (struct box_read){from->stage != BOX_PART, stage, from->pos, w->pos, w->step[i].slice};
        }
}

/* Checks the reads between the set and other ranks. in: true: those by the set; false: those by the other ranks. */
static void
check_reads(const struct box_plan *whole, const struct set *s, bool in, int32_t n, const struct box_read *got)
{
    struct reads want = {0};
    for (int32_t i = 0; i < whole->nstage; i++) add_reads(&want, whole, &whole->stage[i].work, true, s, in);
    for (int32_t i = 0; i < whole->npart; i++) add_reads(&want, whole, &whole->part[i], false, s, in);
    if (want.n) qsort(want.read, (size_t)want.n, sizeof *want.read, by_reader);
    bool same = want.n == n;
    for (int32_t i = 0; same && i < n; i++) {
        const struct box_read *x = &got[i], *y = &want.read[i];
        same = x->from == y->from && x->to == y->to && x->from_stage == y->from_stage && x->to_stage == y->to_stage &&
               !memcmp(x->slice, y->slice, sizeof *x->slice);
    }
    if (!same) complain(in ? "reads from others differ" : "reads by others differ", whole);
    nread += n;
    free(want.read);
}

/* Checks the plans of all sets of ranks for one pair of layouts. relay: the segments of a hierarchical reduction;
 * NULL: none. */
static void
check_sets(const struct type *t, const struct layout *from, const struct layout *to, const struct box_relay *relay)
{
    static uint8_t of[NDEVICE_KIND * MAX_MESH] = {0};
    struct box_plan *whole, *part;
    memset(of, 0, sizeof of);
    if (box_plan(&arena, t, from, to, &whole)) return;
    struct set all = set_of(whole, of, 0);
    if (relay) box_plan_relay(&arena, t, from, to, relay, &all.ranks, &whole);
    int64_t bytes = 0;
    npair++;
    nrelay += relay != NULL;
    int nset = 1 + (int)(next_random(&seed) % 3);
    for (size_t i = 0; i < sizeof of; i++) of[i] = (uint8_t)(next_random(&seed) % (uint64_t)nset);
    for (int k = 0; k < nset; k++) {
        struct set s = set_of(whole, of, k);
        struct box_border b;
        if (box_plan_relay(&arena, t, from, to, relay, &s.ranks, &part)) complain(err_text(), whole);
        check_steps(part, whole, &s);
        bytes += part->bytes;
        box_border(&arena, part, &s.ranks, NULL, &b);
        check_reads(whole, &s, true, b.nin, b.in);
        check_reads(whole, &s, false, b.nout, b.out);
    }
    if (bytes != whole->bytes) complain("bytes differ", whole);
}

static void
check_pair(const struct type *t, const struct layout *from, const struct layout *to)
{
    struct box_relay relay;
    arena_reset(&arena);
    check_sets(t, from, to, NULL);
    if (draw_relay(&arena, t, from, to, &relay)) check_sets(t, from, to, &relay);
}

/* ---- pairs of layouts ---- */

static void
finish(const char *what)
{
    ok(nwrong == 0 && nread > 0, "%s (%ld pairs, %ld hierarchical reductions, %ld reads between sets)", what,
       npair - nrelay, nrelay, nread);
    npair = nrelay = nread = nwrong = 0;
}

static void
every_pair(const struct place *p, const struct place *q, int ndim, int nkind, const char *what)
{
    int n = layouts_of(p, ndim, nkind, from_list), m = layouts_of(q, ndim, nkind, to_list);
    struct type t = type_of(DT_F32, ndim, (const int64_t[]){7, 5, 3});
    for (int i = 0; i < n; i++)
        for (int k = 0; k < m; k++) check_pair(&t, from_list[i], to_list[k]);
    finish(what);
}

static void
draw_pairs(const struct place *p, const struct place *q, long n, const char *what)
{
    draw_moves(p, q, 1, n, check_pair);
    finish(what);
}

/* Returns a placement of devices 0, 1, ... of a kind. */
static const struct place *
kind_place(int kind, int32_t n)
{
    const struct place *p;
    int32_t rank[MAX_MESH];
    for (int32_t i = 0; i < n; i++) rank[i] = i;
    if (place_new(atlas, kind, 1, &n, rank, &p)) diag("%s", err_text());
    return p;
}

/* ---- memory of plans ---- */

static int64_t
sources_of(const struct box_work *w)
{
    int64_t n = w->nstep;
    for (int32_t i = 0; i < w->nstep; i++) n += w->step[i].nsource;
    return n;
}

/* Checks that a plan for one of 1,024 ranks uses little memory if the rank exchanges little: at most EACH bytes per
 * step, source and read, plus REST bytes. */
static void
memory_is_of_what_is_exchanged(void)
{
    enum { EACH = 400, REST = 4096 };
    const struct place *p = mesh(8, 16, 8), *q = mesh(16, 8, 8);
    struct type t = type_of(DT_F32, 2, (int64_t[]){8192, 50257});
    long wrong = 0;
    int n = layouts_of(p, 2, 1, from_list), m = layouts_of(q, 2, 1, to_list);
    for (int k = 0; k < 300; k++) {
        const struct layout *from = from_list[next_random(&seed) % (uint64_t)n];
        const struct layout *to =
            k % 2 ? from_list[next_random(&seed) % (uint64_t)n] : to_list[next_random(&seed) % (uint64_t)m];
        int32_t pos = (int32_t)(next_random(&seed) % 1024);
        struct box_ranks one = {1, 1, &pos, &pos};
        struct box_plan *plan;
        struct box_border b;
        arena_reset(&arena);
        if (box_plan_part(&arena, &t, from, to, &one, &plan)) continue;
        box_border(&arena, plan, &one, NULL, &b);
        int64_t all = b.nin + b.nout;
        for (int32_t i = 0; i < plan->nstage; i++) all += sources_of(&plan->stage[i].work);
        for (int32_t i = 0; i < plan->npart; i++) all += sources_of(&plan->part[i]);
        if ((int64_t)arena.used_bytes <= EACH * all + REST) continue;
        wrong++;
        diag("%zu bytes for %lld", arena.used_bytes, (long long)all);
        complain("memory", plan);
    }
    ok(wrong == 0, "one rank of 1,024 plans in memory proportional to what it exchanges");
}

/* Checks that replicas share their steps in a plan. An all-reduce on 1,024 ranks has 1,024 x 1,024 copies; the
 * plan must need less than one byte per copy. */
static void
replicas_share(const char *from_text, const char *to_text)
{
    const struct layout *from, *to;
    struct box_plan *plan;
    struct type t = type_of(DT_F32, 1, (int64_t[]){4096});
    const struct place *p = mesh(1024, 0, 0);
    arena_reset(&arena);
    bool made = !layout_parse(atlas, p, from_text, 1, &from) && !layout_parse(atlas, p, to_text, 1, &to) &&
                !box_plan(&arena, &t, from, to, &plan);
    ok(made && plan->npart == 1024 && plan->part[1023].nstep == 1024 && arena.used_bytes < 1024 * 1024,
       "%s to %s over 1,024 ranks is planned in %zu KB", from_text, to_text, arena.used_bytes / 1024);
}

int
main(void)
{
    long more = getenv("RILLE_LONG") ? 20 : 1;
    seed = seed_of(31415);
    atlas = atlas_new();
    every_pair(mesh(4, 0, 0), mesh(4, 0, 0), 2, 1, "every pair on 4 ranks");
    every_pair(mesh(2, 3, 0), mesh(2, 3, 0), 2, 1, "every pair on 2 x 3");
    every_pair(mesh(2, 2, 2), mesh(2, 2, 2), 1, 1, "every pair on 2 x 2 x 2, vectors");
    draw_pairs(mesh(2, 3, 2), mesh(2, 3, 2), 2000 * more, "pairs on 2 x 3 x 2");
    draw_pairs(mesh(4, 6, 0), mesh(6, 4, 0), 1000 * more, "pairs between 4 x 6 and 6 x 4");
    for (size_t i = 0; i < countof(twos); i++)
        draw_pairs(place(twos[i].na, twos[i].axis[0], twos[i].rank[0]),
                   place(twos[i].nb, twos[i].axis[1], twos[i].rank[1]), 400 * more, twos[i].what);
    draw_pairs(mesh(4, 0, 0), kind_place(DEV_META, 4), 400 * more, "from 4 devices to 4 of another kind");
    memory_is_of_what_is_exchanged();
    replicas_share("P", "B");
    replicas_share("S(0)", "B");
    arena_fini(&arena);
    atlas_free(&atlas);
    return done();
}
