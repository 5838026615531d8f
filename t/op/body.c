/* body.c - tests that the text of a scan's body, which another process sends, is read or refused. Tries every
 * beginning of a text, and every text with one changed character. A text that is read must suit the operands of a
 * scan, or be refused for that reason. */
#include "kernels/exec/sample.h"
#include "kernels/op/base/table.h"
#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"
#include "sbp/infer.h"

static int nread, nrefused, nsuits;

/* Reads a text as a body, and infers the types of the sample's call with this body. */
static void
try_text(struct sample *s, const char *text)
{
    struct arena a = {0};
    struct rule rule;
    int64_t number;
    if (body_number(text, &number)) {
        nrefused++;
        return;
    }
    nread++;
    s->attr[0].i = number;
    s->call.nout = op_nresult(s->call.op, s->attr);
    nsuits += !call_infer(&a, &s->call, &rule);
    arena_fini(&a);
}

static void
try_changes(struct sample *s, const char *text)
{
    char own[256];
    size_t n = strlen(text);
    assert(n < sizeof own);
    for (size_t i = 0; i <= n; i++) {
        memcpy(own, text, i);
        own[i] = '\0';
        try_text(s, own);
    }
    for (size_t i = 0; i < n; i++)
        for (const char *c = "0179,;:=()[]{}->~/as "; *c; c++) {
            memcpy(own, text, n + 1);
            own[i] = *c;
            try_text(s, own);
        }
}

int
main(void)
{
    const struct op *op = op_find("scan");
    for (int i = 0; op->sample[i]; i++) {
        struct sample s;
        int64_t first, again;
        ok(sample_read(op, op->sample[i], &s), "sample %d is read", i);
        const char *text = body_at(s.attr[0].i)->text;
        ok(!body_number(text, &first) && !body_number(text, &again) && first == again && first == s.attr[0].i,
           "equal texts are one body");
        nread = nrefused = nsuits = 0;
        try_changes(&s, text);
        ok(nread > 0 && nrefused > nread && nsuits > 0,
           "sample %d: %d texts are read, %d refused, %d suit the operands", i, nread, nrefused, nsuits);
    }
    ok(!body_at(-1) && !body_at(INT64_MAX), "other numbers are no bodies");
    const char *const nested = "1,0,1:scan[body={1,1,1:mul(0,2);add(3,1)>4,4},axis=0,length=2](0,1,1)>0";
    int64_t number;
    ok(!body_number(nested, &number) && body_at(number)->node[0].nout == 2, "a body may contain a scan");
    return done();
}
