/* Tests of actors/cluster/controller/files.c and load_request.c: requests to load files, and the answers to writes,
 * for files of any size. */
#include "actors/cluster/controller/files.h"
#include "actors/cluster/controller/load_request.h"
#include "actors/cluster/coordinator/member.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

/* ---- requests to load files ---- */

struct piece { /* A run of consecutive bytes. */
    int64_t from, to, n;
};
static struct piece expected[1 << 16], found[1 << 16];

/* Appends the rows of a copy to a list of byte ranges. Joins a row with the previous range if both ranges are
 * consecutive, at both ends of the copy. */
static int
add_rows(struct piece *list, int n, const struct shard_copy *c)
{
    for (int64_t row = 0; row < c->nrow; row++) {
        struct piece p = {c->from + row * c->from_stride, c->to + row * c->to_stride, c->bytes};
        struct piece *last = n ? &list[n - 1] : NULL;
        if (last && last->from + last->n == p.from && last->to + last->n == p.to)
            last->n += p.n;
        else
            list[n++] = p;
    }
    return n;
}

static bool
fits_packet(const struct load_requests *l, const struct load_request *r)
{
    for (int32_t i = r->first; i < r->first + r->n; i++) {
        const struct shard_copy *c = &l->copy[i];
        int64_t end = c->from + (c->nrow - 1) * c->from_stride + c->bytes;
        if (c->from < r->first_block * SOURCE_BLOCK || end > r->end_block * SOURCE_BLOCK) return false;
    }
    return r->n > 0 && 8 * (r->end_block - r->first_block) <= WIRE_PIECE &&
           sizeof(struct shard_copy) * (size_t)r->n <= WIRE_PIECE;
}

/* Checks that load requests made from copies read the same bytes in the same order as the copies. Each request must
 * fit into a packet. */
static bool
right(const struct shard_copy *copy, int32_t n)
{
    struct load_requests l;
    int nexpected = 0, nfound = 0, at = 0;
    bool good = true;
    load_requests_make(copy, n, &l);
    for (int32_t i = 0; i < n; i++) nexpected = add_rows(expected, nexpected, &copy[i]);
    for (int32_t i = 0; i < l.nrequest; i++) {
        good &= fits_packet(&l, &l.request[i]) && l.request[i].first == at;
        at += l.request[i].n;
    }
    for (int32_t i = 0; i < l.ncopy; i++) nfound = add_rows(found, nfound, &l.copy[i]);
    good &= at == l.ncopy && nfound == nexpected && !memcmp(found, expected, sizeof *found * (size_t)nfound);
    load_requests_free(&l);
    return good;
}

static void
test_requests(void)
{
    const int64_t block = SOURCE_BLOCK, most = block * LOAD_BLOCKS;
    const int64_t start[] = {0, 1, block - 1, 3 * most + 7}, rows[] = {1, 2, 3, 1000};
    const int64_t size[] = {1, 4096, block, most - 1, most, most + 1, 5 * most + 3};
    int bad = 0;
    for (size_t i = 0; i < countof(start); i++)
        for (size_t k = 0; k < countof(rows); k++)
            for (size_t m = 0; m < countof(size); m++)
                for (int gap = 0; gap < 3; gap++) {
                    int64_t stride = size[m] + (int64_t)gap * (most / 3);
                    struct shard_copy c[] = {{start[i], 8, size[m], rows[k], stride, size[m]},
                                             {0, 1ll << 60, 64, 1, 64, 64},
                                             {9 * most, 1ll << 61, 64, 2, 1 << 20, 64}};
                    bad += !right(c, countof(c));
                }
    ok(!bad, "requests for copies of up to 1,000 rows and 5 TiB fit into packets, and read the same bytes");
    static struct shard_copy many[3 * LOAD_COPIES + 1];
    for (int32_t i = 0; i < (int32_t)countof(many); i++) many[i] = (struct shard_copy){64 * i, 128 * i, 32, 1, 32, 32};
    ok(right(many, countof(many)),
       "requests for more copies than a packet holds fit into packets, and read the same bytes");
}

/* ---- answers to writes of files ---- */

static void
take_packet(void *arg, const struct packet *p)
{
    struct str bytes = {0};
    struct packet q;
    packet_write(p, &bytes);
    if (packet_read(bytes.text, bytes.len, &q)) diag("%s", err_text());
    control_filed(arg, &(struct notice){.kind = NOTICE_FILED, .rank = 3, .packet = &q});
    str_free(&bytes);
}

static bool
digests_arrive(size_t n)
{
    struct cluster_file f = {.rank = 3};
    struct file_request request = {.file = 0};
    struct filing w = {.file = &f, .request = &request, .first = 7, .nfile = 1, .n = 1};
    struct cluster c = {.files = {.first = &w, .changed = PTHREAD_COND_INITIALIZER}};
    struct worker_member *m =
        member_new(&(struct member_options){.silence = 3}, &(struct member_env){.arg = &c, .send = take_packet});
    struct str digests = {0};
    for (uint64_t i = 0; i < n; i++) str_addn(&digests, &(uint64_t){i * 0x9e3779b97f4a7c15u}, 8);
    member_filed(m, 1, 7, 0, "", &digests);
    bool same =
        request.done && f.digests.len == digests.len && (!n || !memcmp(f.digests.text, digests.text, digests.len));
    str_free(&digests);
    cluster_file_free(&f);
    member_free(&m);
    return same;
}

static void
test_answers(void)
{
    const size_t block = WIRE_PIECE / 8, n[] = {0, 1, block - 1, block, block + 1, 3 * block, 3 * block + 5};
    int bad = 0;
    for (size_t i = 0; i < countof(n); i++) bad += !digests_arrive(n[i]);
    ok(!bad, "all digests of a written file arrive, also of files of more than 128 GiB");
}

int
main(void)
{
    test_requests();
    test_answers();
    return done();
}
