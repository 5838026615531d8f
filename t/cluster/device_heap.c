/* Tests of actors/cluster/memory/device_heap.c and position.c. A device heap finds the allocation that contains an
 * address range. A simple model with a list makes the same allocations, and both must agree. The positions of
 * devices are checked for all assignments of devices to hosts in small clusters. */
#include "actors/cluster/memory/device_heap.h"
#include "actors/cluster/wire/position.h"
#include "runtime/base/error.h"
#include "t/lib/tap.h"

enum { PLACES = 64, UNIT = 4096, TURNS = 20000 };

struct model {
    bool taken;
    size_t units;
};

static bool
is_free(const struct model *m, int at, size_t units)
{
    for (int i = 0; i < PLACES; i++)
        if (m[i].taken && i < at + (int)units && at < i + (int)m[i].units) return false;
    return true;
}

/* Looks up ranges that begin and end at multiples of half a unit. Returns the number of ranges for which the heap
 * and the model disagree. */
static int
differs(const struct device_heap *h, const struct model *m, uint64_t first)
{
    int wrong = 0;
    for (int at = 0; at < 2 * PLACES; at++)
        for (int n = 1; n < 6; n++) {
            bool there = false;
            for (int i = 0; i < PLACES; i++)
                there = there || (m[i].taken && at >= 2 * i && at + n <= 2 * (i + (int)m[i].units));
            const struct holding *o = device_heap_find(h, first + (uint64_t)at * (UNIT / 2), (size_t)n * (UNIT / 2));
            wrong += there != (o != NULL);
        }
    return wrong;
}

static void
test_held(void)
{
    struct device_heap h = {0};
    struct model m[PLACES] = {{0}};
    uint64_t state = seed_of(7), first = (uint64_t)3 << HEAP_SHIFT;
    int wrong = 0, said = 0;
    for (int i = 0; i < TURNS; i++) {
        int at = (int)(next_random(&state) % PLACES);
        size_t units = 1 + next_random(&state) % 4;
        if (m[at].taken && next_random(&state) % 2) {
            device_heap_give(&h, first + (uint64_t)at * UNIT);
            m[at].taken = false;
        } else {
            /* the units are free, or allocated in the same way before */
            bool fits = is_free(m, at, units) || (m[at].taken && m[at].units == units);
            int status = device_heap_take(&h, DEV_ASYNC, 0, first + (uint64_t)at * UNIT, units * UNIT);
            wrong += fits != !status;
            said += status == E_BUS;
            if (!status) m[at] = (struct model){true, units};
        }
        if (i % 500 == 0) wrong += differs(&h, m, first);
    }
    device_heap_give(&h, 1); /* nothing is allocated at this address */
    is_int(wrong, 0, "exactly the allocated ranges are found");
    ok(said > 0, "overlapping allocations are refused");
    const char *bytes = "kept as it is";
    char back[16];
    struct device_heap one = {0};
    is_int(device_heap_take(&one, DEV_ASYNC, 0, first, 64), 0, "64 bytes are allocated");
    const struct holding *o = device_heap_find(&one, first, 14);
    ok(o && !device_kind(o->kind)->copy(o->data, bytes, 14) && !device_kind(o->kind)->copy(back, o->data, 14) &&
           !memcmp(back, bytes, 14),
       "the device kind's copy writes and reads them");
    device_heap_free(&one);
    device_heap_free(&h);
}

/* Tries all ways to assign four device ranges to two memory segments and three device kinds. Each device that is not
 * a cpu must have exactly one device heap in its segment, and the heap must lead back to the device. */
static void
test_heaps(void)
{
    enum { RANGES = 4 };
    static const int kind[] = {DEV_CPU, DEV_ASYNC, DEV_CUDA};
    int wrong = 0;
    for (int code = 0; code < 6 * 6 * 6 * 6; code++) {
        struct plan_range r[RANGES];
        struct plan_map map = {.nrange = RANGES, .range = r};
        int32_t count[NDEVICE_KIND] = {0};
        for (int i = 0, c = code; i < RANGES; i++, c /= 6) {
            r[i] = (struct plan_range){.kind = kind[c % 3], .n = 1 + i % 3, .memory = c / 3 % 2};
            r[i].first = count[r[i].kind];
            count[r[i].kind] += r[i].n;
        }
        for (int memory = 0; memory < 2; memory++) {
            bool used[RANGES * 4] = {false};
            int32_t n = position_heaps(&map, memory), seen = 0, device;
            int k;
            for (int i = 0; i < RANGES; i++)
                for (int32_t d = r[i].first; d < r[i].first + r[i].n; d++) {
                    int32_t w = position_heap(&map, memory, r[i].kind, d);
                    bool wants = r[i].memory == memory && r[i].kind != DEV_CPU;
                    wrong += wants != (w > 0) || w > n || (w && used[w]);
                    if (!w) continue;
                    used[w] = true;
                    seen++;
                    wrong += !position_heap_device(&map, memory, w, &k, &device) || k != r[i].kind || device != d;
                }
            wrong += seen != n || position_heap_device(&map, memory, 0, &k, &device) ||
                     position_heap_device(&map, memory, n + 1, &k, &device);
        }
    }
    is_int(wrong, 0, "each device with its own memory has exactly one device heap, which maps back to the device");
}

int
main(void)
{
    test_held();
    test_heaps();
    return done();
}
