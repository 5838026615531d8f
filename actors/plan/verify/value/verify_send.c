/* verify_send.c - proves that a SEND sends the window named by its channel, and that received data is used as this
 * window and nothing else.
 *
 * The channels of a move, and the order of their tasks, follow from the layouts and the map (redistribute.h). The
 * proof derives again the windows, the channels that use a library, and the devices of these channels. The content
 * that a SEND sends is proved in the sender's partition. Both ends of a channel state a digest of this content
 * (channel.what), and they are connected only if the digests are equal. */
#include "actors/plan/verify/value/verify_send.h"
#include "actors/plan/verify/value/verify_part.h"
#include "actors/plan/verify/value/verify_move.h"

#include "runtime/device/communicator.h"
#include "runtime/device/device.h"

bool
value_stage_window(const struct box_plan *b, int32_t stage, const struct box *slice, struct view *view, int64_t *skip)
{
    const struct box_stage *s = &b->stage[stage];
    for (int32_t i = 0; i < s->work.nstep; i++) {
        bool inside = true;
        const struct box *own = s->work.step[i].slice;
        struct type t = {.dtype = (uint8_t)box_stage_dtype(b, s->work.pos), .ndim = b->type.ndim};
        for (int d = 0; d < t.ndim; d++) {
            inside = inside && slice->lo[d] >= own->lo[d] && slice->hi[d] <= own->hi[d];
            t.dim[d] = own->hi[d] - own->lo[d];
        }
        if (!inside) continue;
        struct view dense = view_dense(&t, NULL);
        *view = value_window(&dense, own->lo, slice, skip);
        *skip += s->offset[i];
        return true;
    }
    return false;
}

/* ---- turns ---- */

enum turn
value_turn(struct values *s, int32_t *which)
{
    const struct redistribution *x = s->cross;
    struct redistribute_level done = {.nout = x->npart};
    int32_t n = s->box_task++;
    if (n < x->npart) return *which = n, SEND_ALL;
    n -= x->npart;
    for (int32_t k = 0; k < x->nlevel; done = x->level[k++]) {
        const struct redistribute_level *end = &x->level[k];
        if ((*which = done.nin + n) < end->nin) return RECV_ALL;
        n -= end->nin - done.nin;
        if ((*which = done.nstage + n) < end->nstage) return FILL_STAGES;
        n -= end->nstage - done.nstage;
        if ((*which = done.nout + n) < end->nout) return SEND_ALL;
        n -= end->nout - done.nout;
    }
    if ((*which = done.nin + n) < x->nin) return RECV_ALL;
    *which = n - (x->nin - done.nin);
    return *which < x->own->npart ? FILL_PARTS : NO_TURN;
}

int
value_end_move(const struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct redistribution *x = s->cross;
    if (task + 1 < p->ntask && task_hop(&p->task[task + 1]) == p->task[task].move.of) return 0;
    return proof_same(s->v, task, "number of tasks of its move", s->box_task,
                      x->nout + x->nin + x->own->nstage + x->own->npart);
}

/* ---- channels ---- */

/* Proves that the task is the end of channel x that sends (sends true) or receives: compares the plan's channel with
 * x, which was derived from the layouts. */
static int
check_send_channel(struct values *s, int32_t task, const struct redistribute_channel *x, bool sends)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    if (t->channel < 0) return proof_fail(s->v, task, "must have a channel");
    const struct channel *c = &p->channel[t->channel];
    const struct channel_name *n = &c->name;
    if (n->step != t->move.of->step || n->operand != t->move.of->operand || n->hop != t->move.of->hop)
        return proof_fail(s->v, task, "its channel belongs to another hop");
    if (n->from_side != x->from_side || n->from != x->from || n->to_side != x->to_side || n->to != x->to)
        return proof_fail(s->v, task, "its channel connects other shards or stage buffers");
    TRY(proof_same(s->v, task, "direction of its channel (1: sends)", c->sends, sends));
    TRY(proof_same(s->v, task, "host at the other end of its channel", c->peer, x->peer));
    TRY(proof_same(s->v, task, "flag \"carried by a library\" of its channel", c->direct,
                   redistribute_is_p2p(s->cross)));
    TRY(proof_same(s->v, task, "position of its channel in the order of transfers", c->turn,
                   redistribute_turn(s->cross, x, sends)));
    TRY(proof_same(s->v, task, "dtype of its channel", c->dtype, redistribute_dtype(s->cross, x)));
    TRY(proof_same(s->v, task, "size of its channel's data", c->bytes,
                   x->numel * (int64_t)dtype_bytes(redistribute_dtype(s->cross, x))));
    return proof_same(s->v, task, "digest of its channel's content", (int64_t)c->what,
                      (int64_t)redistribute_what(s->cross, s->box_ref, x));
}

/* Finds the window that argument 0 must contain for slice i of a channel. *bytes: offset of the window from the
 * start of the argument's register or leaf. */
static int
find_channel_window(struct values *s, int32_t task, const struct redistribute_channel *x, int32_t i, struct view *view,
                    int64_t *bytes)
{
    const struct task *t = &s->v->plan->task[task];
    const struct box_plan *b = s->cross->own;
    struct view part;
    int64_t skip = 0, more = 0;
    if (x->from_side == SIDE_STAGE) {
        struct content c;
        TRY(value_content(s, task, 0, &c));
        bool found = !c.layout && !c.received && c.box == t->move.of && b->stage[c.pos].work.pos == x->from &&
                     value_stage_window(b, c.pos, x->slice[i].slice, view, &more);
        if (!found) return proof_fail(s->v, task, "must send the stage buffer at position %d", (int)x->from);
    } else {
        struct box box;
        TRY(value_read(s, task, 0, s->box_ref, b->from, x->from, &s->box_version, &part, &skip));
        layout_box(b->from, &b->type, x->from, &box);
        *view = value_window(&part, box.lo, x->slice[i].slice, &more);
    }
    *bytes = (skip + more) * (int64_t)dtype_bytes(view->dtype);
    return 0;
}

/* Proves that view `got`, `bytes` after the start of argument 0, is the window of slice i of the channel. */
static int
check_window(struct values *s, int32_t task, const struct redistribute_channel *x, int32_t i, const struct view *got,
             int64_t bytes)
{
    const struct task *t = &s->v->plan->task[task];
    struct view view;
    int64_t skip;
    TRY(find_channel_window(s, task, x, i, &view, &skip));
    if (!view_same(got, &view)) return proof_fail(s->v, task, "a window that it sends does not match its channel");
    return proof_same(s->v, task, "offset of a window that it sends", t->arg[0].skip + bytes, skip);
}

/* Begins the proof of a move at the move's first task. */
static int
begin_task(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    bool first = task == 0 || task_hop(&s->v->plan->task[task - 1]) != t->move.of;
    return first ? value_begin_move(s, task) : 0;
}

/* Begins the proof of a task of a hop: proves that the task has the right place in the order of the hop's tasks.
 * turn: expected group of tasks. *which: index of the task in its group (value_turn). */
static int
begin_turn(struct values *s, int32_t task, enum turn turn, int32_t *which)
{
    const struct task *t = &s->v->plan->task[task];
    TRY(begin_task(s, task));
    if (value_turn(s, which) != turn)
        return proof_fail(s->v, task, "a task of kind %s is out of order in its hop", t->kind->name);
    return value_moves(s, task);
}

/* ---- through host memory ----
 *
 * If host code cannot read a device's memory, the end of a channel consists of two consecutive tasks: a transfer
 * to a cpu device and the SEND, or the RECV and a transfer from the cpu device. The order of the hop's tasks counts
 * only the second task. No other task uses the result of the first. */

/* A device, as its kind and rank. */
struct end {
    int kind;
    int32_t rank;
};

/* Finds the device in whose memory host code can access the data of device `at`. *elsewhere: true if that device is
 * a cpu device, because host code cannot access the memory of `at`. */
static int
find_end_host(const struct values *s, int32_t task, struct end at, struct end *host, bool *elsewhere)
{
    *elsewhere = !(device_kind(at.kind)->flags & HOST_READS);
    *host = *elsewhere ? (struct end){DEV_CPU, local_set_host(&s->v->mines, at.kind, at.rank)} : at;
    return host->rank >= 0
               ? 0
               : proof_fail(s->v, task, "the host has no cpu device through which to send or receive the data");
}

/* Proves the first task of a channel end that consists of two tasks. The order of the hop's tasks counts only the
 * second. */
static int
hold_turn(struct values *s, int32_t task)
{
    const struct plan *p = s->v->plan;
    const struct plan_move *of = p->task[task].move.of;
    if (s->halfway || task + 1 == p->ntask || task_hop(&p->task[task + 1]) != of)
        return proof_fail(s->v, task, "data is staged in host memory, but the next task does not move it further");
    s->halfway = true;
    s->box_task--;
    *value_result(s, task, 0) = (struct content){.ref = s->box_ref, .pos = -1, .received = true, .box = of};
    return 0;
}

/* Proves the number of tasks at an end of a channel. second true: the task must be the second of two, and must read
 * the result of the first task from its start. second false: the task must be the only one. */
static int
take_turn(struct values *s, int32_t task, bool second)
{
    const struct task *t = &s->v->plan->task[task];
    if (s->halfway != second)
        return proof_fail(s->v, task,
                          "data that passes through host memory must have two tasks, and other data one task");
    s->halfway = false;
    if (!second) return 0;
    bool reads = t->narg == 1 && t->arg[0].kind == ARG_REG && t->in[t->arg[0].index].task == task - 1 &&
                 t->in[t->arg[0].index].out == 0;
    if (!reads) return proof_fail(s->v, task, "must read the data that the task before it staged in host memory");
    return proof_same(s->v, task, "offset of an argument", t->arg[0].skip, 0);
}

/* Returns true if the view is a dense vector of all elements that the channel sends. */
static bool
is_row(const struct values *s, const struct redistribute_channel *x, const struct view *view)
{
    struct type row = type_of(redistribute_dtype(s->cross, x), 1, &x->numel);
    struct view dense = view_dense(&row, NULL);
    return view_same(view, &dense);
}

static struct end
source_end(const struct values *s, const struct redistribute_channel *x)
{
    const struct place *p = s->cross->own->from->place;
    return (struct end){p->kind, p->rank[redistribute_from(s->cross, x)]};
}

static struct end
reader_end(const struct values *s, const struct redistribute_channel *x)
{
    const struct place *p = (x->to_side == SIDE_STAGE ? s->cross->own->from : s->cross->own->to)->place;
    return (struct end){p->kind, p->rank[redistribute_to(s->cross, x)]};
}

int
value_send(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    int32_t which;
    struct end host;
    bool elsewhere;
    TRY(begin_turn(s, task, SEND_ALL, &which));
    const struct redistribute_channel *x = &s->cross->out[which];
    TRY(proof_same(s->v, task, "number of arguments", t->narg, 1));
    TRY(find_end_host(s, task, source_end(s, x), &host, &elsewhere));
    TRY(take_turn(s, task, elsewhere));
    TRY(value_on(s, task, host.kind, host.rank));
    TRY(check_send_channel(s, task, x, true));
    const struct channel *c = &s->v->plan->channel[t->channel];
    TRY(proof_same(s->v, task, "number of slices of its channel", c->nslice, elsewhere ? 1 : x->nslice));
    if (elsewhere && (!is_row(s, x, c->slice[0].view) || c->slice[0].skip))
        return proof_fail(s->v, task, "must send all data staged in host memory");
    for (int32_t i = 0; !elsewhere && i < x->nslice; i++)
        TRY(check_window(s, task, x, i, c->slice[i].view, c->slice[i].skip));
    return value_end_move(s, task);
}

/* Proves that result 0 of the task has as many bytes as the channel sends. */
static int
check_channel_room(const struct values *s, int32_t task, const struct redistribute_channel *x)
{
    return proof_same(s->v, task, "size of a result", s->v->plan->task[task].out[0].bytes,
                      x->numel * (int64_t)dtype_bytes(redistribute_dtype(s->cross, x)));
}

/* Records that the task's result contains the data of incoming channel `which`. */
static int
has_come(struct values *s, int32_t task, int32_t which)
{
    *value_result(s, task, 0) =
        (struct content){.ref = s->box_ref, .pos = which, .received = true, .box = s->v->plan->task[task].move.of};
    return value_end_move(s, task);
}

int
value_recv(struct values *s, int32_t task)
{
    int32_t which;
    struct end host;
    bool elsewhere;
    TRY(begin_turn(s, task, RECV_ALL, &which));
    const struct redistribute_channel *x = &s->cross->in[which];
    TRY(check_channel_room(s, task, x));
    TRY(proof_same(s->v, task, "number of arguments", s->v->plan->task[task].narg, 0));
    TRY(find_end_host(s, task, reader_end(s, x), &host, &elsewhere));
    TRY(value_on(s, task, host.kind, host.rank));
    TRY(check_send_channel(s, task, x, false));
    TRY(proof_same(s->v, task, "number of slices of its channel",
                   s->v->plan->channel[s->v->plan->task[task].channel].nslice, 0));
    if (elsewhere) return hold_turn(s, task);
    TRY(take_turn(s, task, false));
    return has_come(s, task, which);
}

/* ---- library links ---- */

/* Proves that the task is one end of the point-to-point link between these two devices, at the right rank. */
static int
check_send_member(const struct values *s, int32_t task, const struct redistribute_channel *x)
{
    const struct move_comm_rank *own = s->v->plan->task[task].move.member;
    struct end from = source_end(s, x), to = reader_end(s, x);
    if (from.kind != own->in->kind || own->in->device[0] != from.rank || own->in->device[1] != to.rank)
        return proof_fail(s->v, task, "uses the point-to-point link of other devices");
    TRY(value_on(s, task, own->in->kind, own->in->device[own->comm_rank]));
    TRY(proof_same(s->v, task, "dtype on the link", own->dtype, redistribute_dtype(s->cross, x)));
    return proof_same(s->v, task, "number of elements on the link", own->numel, x->numel);
}

/* Proves that a sender on a link packs slice i directly after the slices before it. */
static int
check_packed(struct values *s, int32_t task, const struct redistribute_channel *x, int32_t i)
{
    const struct comm_rank_copy *copy = &s->v->plan->task[task].move.member->pack[i];
    struct type type = s->cross->own->type;
    type.dtype = (uint8_t)redistribute_dtype(s->cross, x);
    for (int d = 0; d < type.ndim; d++) type.dim[d] = x->slice[i].slice->hi[d] - x->slice[i].slice->lo[d];
    struct view dense = view_dense(&type, NULL);
    if (!view_same(copy->to, &dense)) return proof_fail(s->v, task, "the slices that it sends must be packed densely");
    TRY(proof_same(s->v, task, "offset of a packed slice", copy->to_skip,
                   x->offset[i] * (int64_t)dtype_bytes(dense.dtype)));
    if (!copy->launch && device_kind(s->cross->own->from->place->kind)->settle)
        return proof_fail(s->v, task,
                          "a collective library sends these slices from the device, so the host must not pack them");
    return check_window(s, task, x, i, copy->from, copy->from_skip);
}

/* Proves that a sender on a link that does not pack sends a single window without gaps. */
static int
check_unpacked(struct values *s, int32_t task, const struct redistribute_channel *x)
{
    const struct task *t = &s->v->plan->task[task];
    struct view view;
    int64_t skip;
    TRY(proof_same(s->v, task, "number of windows sent without packing", x->nslice, 1));
    TRY(find_channel_window(s, task, x, 0, &view, &skip));
    if (!view_is_dense(&view)) return proof_fail(s->v, task, "sends a window with gaps without packing it");
    return proof_same(s->v, task, "offset of a window that it sends", t->arg[0].skip, skip);
}

int
value_p2p_send(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    const struct move_comm_rank *own = t->move.member;
    int32_t which;
    TRY(begin_turn(s, task, SEND_ALL, &which));
    const struct redistribute_channel *x = &s->cross->out[which];
    TRY(proof_same(s->v, task, "number of arguments", t->narg, 1));
    TRY(proof_same(s->v, task, "number of steps", t->move.nstep, 0));
    TRY(take_turn(s, task, false));
    TRY(check_send_channel(s, task, x, true));
    TRY(check_send_member(s, task, x));
    if (!own->npack) {
        TRY(check_unpacked(s, task, x));
        return value_end_move(s, task);
    }
    TRY(proof_same(s->v, task, "number of packed slices", own->npack, x->nslice));
    for (int32_t i = 0; i < own->npack; i++) TRY(check_packed(s, task, x, i));
    TRY(check_channel_room(s, task, x));
    TRY(proof_same(s->v, task, "location of the packed slices", t->out[0].where.kind, IN_ARENA));
    TRY(proof_same(s->v, task, "number of readers of the packed slices", t->out[0].nfan, 0));
    *value_result(s, task, 0) = (struct content){.ref = s->box_ref, .pos = -1, .received = true, .box = t->move.of};
    return value_end_move(s, task);
}

int
value_p2p_recv(struct values *s, int32_t task)
{
    const struct task *t = &s->v->plan->task[task];
    int32_t which;
    TRY(begin_turn(s, task, RECV_ALL, &which));
    const struct redistribute_channel *x = &s->cross->in[which];
    TRY(proof_same(s->v, task, "number of arguments", t->narg, 0));
    TRY(proof_same(s->v, task, "number of steps", t->move.nstep, 0));
    TRY(proof_same(s->v, task, "number of packed slices", t->move.member->npack, 0));
    TRY(take_turn(s, task, false));
    TRY(check_channel_room(s, task, x));
    TRY(check_send_channel(s, task, x, false));
    TRY(check_send_member(s, task, x));
    return has_come(s, task, which);
}

/* ---- between memory spaces ---- */

/* Proves that a step copies one window of argument 0 to the given destination. */
static int
check_box_copy(const struct values *s, int32_t task, const struct box_move *m, const struct view *dst, int64_t skip)
{
    TRY(proof_same(s->v, task, "kind of a step of a move", m->verb, BOX_COPY));
    TRY(proof_same(s->v, task, "reduction of a step of a move", m->reduce, RED_NONE));
    TRY(proof_same(s->v, task, "number of sources of a step of a move", m->nfrom, 1));
    TRY(proof_same(s->v, task, "argument that it transfers", m->from[0].arg, 0));
    if (!view_same(m->view, dst)) return proof_fail(s->v, task, "must transfer to a dense row");
    return proof_same(s->v, task, "offset of a destination", m->skip, skip * (int64_t)dtype_bytes(dst->dtype));
}

/* Proves that step i of a transfer copies slice i to the place directly after the slices before it. */
static int
check_carried(struct values *s, int32_t task, const struct redistribute_channel *x, int32_t i)
{
    const struct box_move *m = &s->v->plan->task[task].move.step[i];
    struct type type = s->cross->own->type;
    type.dtype = (uint8_t)redistribute_dtype(s->cross, x);
    for (int d = 0; d < type.ndim; d++) type.dim[d] = x->slice[i].slice->hi[d] - x->slice[i].slice->lo[d];
    struct view dense = view_dense(&type, NULL);
    TRY(check_box_copy(s, task, m, &dense, x->offset[i]));
    return check_window(s, task, x, i, m->from[0].view, m->from[0].skip);
}

/* Proves that the task transfers data from device `from` to device `to`, and runs on the device whose stream can
 * access both memories. */
static int
check_ends(const struct values *s, int32_t task, const struct redistribute_channel *x, struct end from, struct end to)
{
    const struct plan *p = s->v->plan;
    const struct task *t = &p->task[task];
    const struct plan_device *holder = &p->device[task_holder(t)];
    int kind = device_carrier(from.kind, to.kind);
    TRY(value_on(s, task, kind, kind == to.kind ? to.rank : from.rank));
    if (holder->kind != to.kind || holder->rank != to.rank)
        return proof_fail(s->v, task, "must transfer to the device of rank %d", (int)to.rank);
    TRY(proof_same(s->v, task, "mesh position", t->pos, x->to));
    TRY(proof_same(s->v, task, "number of arguments", t->narg, 1));
    TRY(proof_same(s->v, task, "flag \"fills a stage buffer\"", t->move.stage, false));
    return proof_same(s->v, task, "size of the received data", t->move.received, 0);
}

static int
check_slices(struct values *s, int32_t task, const struct redistribute_channel *x, struct end from, struct end to)
{
    TRY(check_ends(s, task, x, from, to));
    TRY(check_channel_room(s, task, x));
    TRY(proof_same(s->v, task, "number of steps", s->v->plan->task[task].move.nstep, x->nslice));
    for (int32_t i = 0; i < x->nslice; i++) TRY(check_carried(s, task, x, i));
    return 0;
}

/* Proves a task that transfers outgoing data to host memory. */
static int
value_lift(struct values *s, int32_t task, const struct redistribute_channel *x)
{
    struct end from = source_end(s, x), host;
    bool elsewhere;
    TRY(find_end_host(s, task, from, &host, &elsewhere));
    if (!elsewhere) return proof_fail(s->v, task, "transfers data that host code can read in place");
    TRY(check_slices(s, task, x, from, host));
    return hold_turn(s, task);
}

/* Proves a task that transfers received data from host memory to the reader. */
static int
value_land(struct values *s, int32_t task, const struct redistribute_channel *x, int32_t which)
{
    const struct box_move *step = s->v->plan->task[task].move.step;
    struct end to = reader_end(s, x), host;
    struct type row = type_of(redistribute_dtype(s->cross, x), 1, &x->numel);
    struct view dense = view_dense(&row, NULL);
    bool elsewhere;
    TRY(find_end_host(s, task, to, &host, &elsewhere));
    if (!elsewhere)
        return proof_fail(s->v, task, "transfers data from host %d that is already in the reader's memory",
                          (int)x->peer);
    TRY(take_turn(s, task, true));
    TRY(check_ends(s, task, x, host, to));
    TRY(check_channel_room(s, task, x));
    TRY(proof_same(s->v, task, "number of steps", s->v->plan->task[task].move.nstep, 1));
    TRY(check_box_copy(s, task, step, &dense, 0));
    if (!is_row(s, x, step->from[0].view) || step->from[0].skip)
        return proof_fail(s->v, task, "must transfer all data that was received");
    return has_come(s, task, which);
}

int
value_transfer(struct values *s, int32_t task)
{
    int32_t which;
    TRY(begin_task(s, task));
    enum turn turn = value_turn(s, &which);
    if (turn != SEND_ALL && turn != RECV_ALL) return proof_fail(s->v, task, "a transfer is out of order in its hop");
    TRY(value_moves(s, task));
    if (turn == SEND_ALL) return value_lift(s, task, &s->cross->out[which]);
    const struct redistribute_channel *x = &s->cross->in[which];
    if (x->peer != s->v->plan->memory) return value_land(s, task, x, which);
    TRY(take_turn(s, task, false));
    TRY(check_slices(s, task, x, source_end(s, x), reader_end(s, x)));
    return has_come(s, task, which);
}

/* ---- reading received data ---- */

int
value_received(struct values *s, int32_t task, const struct box_work *w, const struct box_step *step, int32_t i,
               const struct box_from *f)
{
    const struct redistribution *x = s->cross;
    const struct task *t = &s->v->plan->task[task];
    int32_t which, channel = redistribute_find(x, w, t->move.stage, &step->source[i], step->slice, &which);
    struct type type = x->own->type;
    type.dtype = (uint8_t)redistribute_dtype(x, &x->in[channel]);
    struct content got;
    TRY(value_content(s, task, f->arg, &got));
    if (!got.received || got.box != t->move.of || got.pos != channel)
        return proof_fail(s->v, task, "argument %d must be the receive buffer of its channel", (int)f->arg);
    for (int d = 0; d < type.ndim; d++) type.dim[d] = step->slice->hi[d] - step->slice->lo[d];
    struct view dense = view_dense(&type, NULL);
    if (!view_same(f->view, &dense))
        return proof_fail(s->v, task, "the window of received data does not match its step");
    return proof_same(s->v, task, "offset of received data", t->arg[f->arg].skip + f->skip,
                      x->in[channel].offset[which] * (int64_t)dtype_bytes(type.dtype));
}
