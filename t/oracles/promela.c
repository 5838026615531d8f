/* promela.c - writes the firing rule of actor.c in Promela, with all numbers of one plan.
 *
 * A thread is a process. A step of a thread begins an act (and blocks its other acts), ends it, or receives a
 * message. Steps interleave in any order that tokens, registers and channel order permit. The model keeps the same
 * state as the actors: fans that hold a register, readers of a fan. A separate counter, `unread`, is the true number
 * of acts that must still read a register; the model asserts that the counter is 0 when the register is written. */
#include "t/oracles/promela.h"

struct model {
    const struct plan *p;
    struct str *s;
    struct arena tmp;
    /* Indices into the lists of the model.
     * in, out: by task, its first input and its first output.
     * reg, fan: by result of a task, its first register and its first fan (readers on one thread).
     * held: by fan, the entry of its first register in the model's array `reading`. */
    int32_t *in, *out, *reg, *fan, *held;
    int32_t nin, nout, nreg, nfan, nheld;
};

static void
number_all(struct model *m)
{
    const struct plan *p = m->p;
    int32_t nout = 0, nfan = 0;
    for (int32_t i = 0; i < p->ntask; i++) {
        nout += p->task[i].nout;
        for (int32_t k = 0; k < p->task[i].nout; k++) nfan += p->task[i].out[k].nfan;
    }
    m->in = ARENA_ARRAY(&m->tmp, int32_t, p->ntask + 1);
    m->out = ARENA_ARRAY(&m->tmp, int32_t, p->ntask + 1);
    m->reg = ARENA_ARRAY(&m->tmp, int32_t, nout + 1);
    m->fan = ARENA_ARRAY(&m->tmp, int32_t, nout + 1);
    m->held = ARENA_ARRAY(&m->tmp, int32_t, nfan + 1);
    for (int32_t i = 0; i < p->ntask; i++) {
        m->in[i] = m->nin;
        m->out[i] = m->nout;
        m->nin += p->task[i].nin;
        for (int32_t k = 0; k < p->task[i].nout; k++) {
            const struct out_port *o = &p->task[i].out[k];
            m->reg[m->nout] = m->nreg;
            m->fan[m->nout++] = m->nfan;
            m->nreg += o->nreg;
            for (int32_t f = 0; f < o->nfan; f++, m->nheld += o->nreg) m->held[m->nfan++] = m->nheld;
        }
    }
}

static void
print_state(const struct model *m)
{
    const struct plan *p = m->p;
    struct str *s = m->s;
    str_addf(s, "/* %d tasks on %d threads, %d pieces */\n", (int)p->ntask, (int)p->nthread, (int)p->pieces);
    str_add(s, "mtype = { FULL, FREE }\n");
    for (int32_t t = 0; t < p->nthread; t++)
        for (int32_t u = 0; u < p->nthread; u++)
            if (t != u)
                str_addf(s, "chan c%d_%d = [%d] of { mtype, short, short }\n", (int)t, (int)u, (int)(2 * m->nheld + 2));
    str_addf(s,
             "short token[%d], used[%d], take[%d];\nshort write[%d];\nshort fans[%d], unread[%d];\nshort reading[%d];\n"
             "short begun[%d];\nbyte gate, updates;\nbool acting[%d];\n",
             (int)m->nin + 1, (int)m->nin + 1, (int)m->nin + 1, (int)m->nout + 1, (int)m->nreg + 1, (int)m->nreg + 1,
             (int)m->nheld + 1, (int)p->ntask + 1, (int)p->nthread + 1);
}

/* Prints the condition under which the task may act. */
static void
print_guard(const struct model *m, int32_t i)
{
    const struct task *t = &m->p->task[i];
    str_addf(m->s, "begun[%d] < %d%s", (int)i, (int)t->nact, t->updates ? " && gate != 2" : "");
    for (int32_t k = 0; k < t->nin; k++) str_addf(m->s, " && token[%d] >= %d", (int)(m->in[i] + k), (int)t->in[k].need);
    for (int32_t k = 0; k < t->nout; k++)
        if (!t->out[k].control && !t->out[k].once)
            str_addf(m->s, " && fans[%d + write[%d]] == 0", (int)m->reg[m->out[i] + k], (int)(m->out[i] + k));
}

/* Prints assertions that no register has unread data when the task writes it. */
static void
print_writes(const struct model *m, int32_t i)
{
    const struct task *t = &m->p->task[i];
    for (int32_t k = 0; k < t->nout; k++)
        if (!t->out[k].control)
            str_addf(m->s, "    assert(unread[%d + write[%d]] == 0);\n", (int)m->reg[m->out[i] + k],
                     (int)(m->out[i] + k));
}

/* Prints the arrival of register `r` at the readers of a fan. */
static void
print_arrive(const struct model *m, const struct out_port *out, int32_t f, int32_t fan, const char *r,
             const char *indent)
{
    if (!out->once)
        str_addf(m->s, "%sreading[%d + %s] = %d;\n", indent, (int)m->held[fan], r, (int)out->fan[f].nreader);
    for (int32_t k = 0; k < out->fan[f].nreader; k++) {
        const struct reader *to = &out->fan[f].reader[k];
        str_addf(m->s, "%stoken[%d]++;\n", indent, (int)(m->in[to->task] + to->port));
    }
}

static void
print_publish(const struct model *m, int32_t i, int32_t k)
{
    const struct task *t = &m->p->task[i];
    const struct out_port *out = &t->out[k];
    int32_t o = m->out[i] + k;
    int64_t reads = 0;
    if (!out->control && out->every > 1) str_addf(m->s, "    if :: begun[%d] %% %d == 0 ->\n", (int)i, (int)out->every);
    for (int32_t f = 0; f < out->nfan; f++)
        for (int32_t n = 0; n < out->fan[f].nreader; n++)
            reads += m->p->task[out->fan[f].reader[n].task].in[out->fan[f].reader[n].port].hold;
    str_addf(m->s, "    r = write[%d];\n", (int)o);
    if (!out->control) {
        str_addf(m->s, "    unread[%d + r] = %d;\n", (int)m->reg[o], (int)reads);
        if (!out->once) str_addf(m->s, "    fans[%d + r] = %d;\n", (int)m->reg[o], (int)out->nfan);
        str_addf(m->s, "    write[%d] = (r + 1) %% %d;\n", (int)o, (int)out->nreg);
    }
    for (int32_t f = 0; f < out->nfan; f++) {
        if (out->fan[f].thread == t->thread)
            print_arrive(m, out, f, m->fan[o] + f, "r", "    ");
        else
            str_addf(m->s, "    c%d_%d!FULL(%d, r);\n", (int)t->thread, (int)out->fan[f].thread, (int)(m->fan[o] + f));
    }
    if (!out->control && out->every > 1) str_add(m->s, "    :: else fi;\n");
}

static void
print_take(const struct model *m, int32_t i, int32_t k)
{
    const struct task *t = &m->p->task[i];
    const struct in_port *in = &t->in[k];
    const struct task *from = &m->p->task[in->task];
    const struct out_port *out = &from->out[in->out];
    int32_t port = m->in[i] + k, o = m->out[in->task] + in->out, fan = m->fan[o] + in->fan;
    if (!out->control) str_addf(m->s, "    unread[%d + take[%d]]--;\n", (int)m->reg[o], (int)port);
    str_addf(m->s, "    used[%d]++;\n    if :: used[%d] == %d ->\n", (int)port, (int)port, (int)in->hold);
    str_addf(m->s, "      used[%d] = 0; token[%d] = token[%d] - %d; r = take[%d]; take[%d] = (r + 1) %% %d;\n",
             (int)port, (int)port, (int)port, (int)in->need, (int)port, (int)port, (int)out->nreg);
    if (!out->once && !out->control) {
        str_addf(m->s, "      reading[%d + r]--;\n      if :: reading[%d + r] == 0 -> ", (int)m->held[fan],
                 (int)m->held[fan]);
        if (from->thread == t->thread)
            str_addf(m->s, "fans[%d + r]--", (int)m->reg[o]);
        else
            str_addf(m->s, "c%d_%d!FREE(%d, r)", (int)t->thread, (int)from->thread, (int)m->reg[o]);
        str_add(m->s, " :: else fi\n");
    }
    str_add(m->s, "      r = 0\n    :: else fi;\n");
}

/* Prints an act as two steps, so that other threads can run in between. */
static void
print_act(const struct model *m, int32_t i)
{
    const struct task *t = &m->p->task[i];
    str_addf(m->s, "  :: atomic { !acting[%d] && ", (int)t->thread);
    print_guard(m, i);
    str_add(m->s, " ->\n");
    if (t->updates) str_add(m->s, "    gate = 1; updates++;\n");
    print_writes(m, i);
    str_addf(m->s, "    begun[%d]++; acting[%d] = 1; now = %d }\n", (int)i, (int)t->thread, (int)i);
    str_addf(m->s, "  :: d_step { acting[%d] && now == %d ->\n", (int)t->thread, (int)i);
    for (int32_t k = 0; k < t->nout; k++) print_publish(m, i, k);
    for (int32_t k = 0; k < t->nin; k++) print_take(m, i, k);
    str_addf(m->s, "    acting[%d] = 0; r = 0 }\n", (int)t->thread);
}

/* Prints how a thread receives a message from another thread: a full register for a fan on this thread, or a
 * released register. */
static void
print_messages(const struct model *m, int32_t thread, int32_t from)
{
    const struct plan *p = m->p;
    struct str *s = m->s;
    str_addf(s, "  :: d_step { c%d_%d?FREE(f, r) -> fans[f + r]--; f = 0; r = 0 }\n", (int)from, (int)thread);
    for (int32_t i = 0; i < p->ntask; i++)
        for (int32_t k = 0; k < p->task[i].nout && p->task[i].thread == from; k++)
            for (int32_t f = 0; f < p->task[i].out[k].nfan; f++) {
                if (p->task[i].out[k].fan[f].thread != thread) continue;
                int32_t fan = m->fan[m->out[i] + k] + f;
                str_addf(s, "  :: d_step { c%d_%d?FULL(%d, r) ->\n", (int)from, (int)thread, (int)fan);
                print_arrive(m, &p->task[i].out[k], f, fan, "r", "    ");
                str_add(s, "    r = 0 }\n");
            }
}

static void
print_thread(const struct model *m, int32_t thread)
{
    str_addf(m->s, "active proctype thread%d() {\n  short now, r, f;\n  end: do\n", (int)thread);
    for (int32_t i = 0; i < m->p->ntask; i++)
        if (m->p->task[i].thread == thread) print_act(m, i);
    for (int32_t u = 0; u < m->p->nthread; u++)
        if (u != thread) print_messages(m, thread, u);
    str_add(m->s, "  od\n}\n");
}

/* Prints an interrupt (Ctrl-C) at any moment, and the assertions at the end of the run. */
static void
print_end(const struct model *m)
{
    const struct plan *p = m->p;
    struct str *s = m->s;
    int64_t updates = 0;
    str_add(s, "active proctype user() { end: if :: atomic { gate == 0 -> gate = 2 } :: skip fi }\n");
    str_add(s,
            "active proctype at_end() {\n  timeout ->\n  if\n  :: gate == 2 -> assert(updates == 0)\n  :: else ->\n");
    for (int32_t i = 0; i < p->ntask; i++) {
        updates += p->task[i].updates ? p->task[i].nact : 0;
        str_addf(s, "    assert(begun[%d] == %d);\n", (int)i, (int)p->task[i].nact);
    }
    for (int32_t k = 0; k < m->nreg; k++)
        str_addf(s, "    assert(fans[%d] == 0 && unread[%d] == 0);\n", (int)k, (int)k);
    str_addf(s, "    assert(updates == %d)\n  fi\n}\n", (int)updates);
}

void
plan_promela(const struct plan *p, struct str *s)
{
    struct model m = {.p = p, .s = s};
    number_all(&m);
    print_state(&m);
    for (int32_t t = 0; t < p->nthread; t++) print_thread(&m, t);
    print_end(&m);
    arena_fini(&m.tmp);
}
