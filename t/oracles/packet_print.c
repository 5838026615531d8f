/* packet_print.c - prints the fields of a packet in the order of wire.def. */
#include "t/oracles/packet_print.h"

/* Functions that print one field, by the field's type in wire.def. */
static void
print_u64(const char *name, uint64_t v, struct str *out)
{
    str_addf(out, " %s=%llu", name, (unsigned long long)v);
}
static void
print_i32(const char *name, int32_t v, struct str *out)
{
    str_addf(out, " %s=%d", name, (int)v);
}
static void
print_bytes(const char *name, struct span s, struct str *out)
{
    if (s.n > 0) str_addf(out, " %s=(%u bytes)", name, s.n);
}
static void
print_text(const char *name, struct span s, struct str *out)
{
    if (s.n == 0) return;
    str_addf(out, " %s=", name);
    span_print(s, out);
}
#define print_U32    print_u64
#define print_U64    print_u64
#define print_I32    print_i32
#define print_STATUS print_u64
#define print_TEXT   print_text
#define print_B16    print_bytes
#define print_BYTES  print_bytes
#define print_U32S   print_bytes
#define print_I32S   print_bytes
#define print_U64S   print_bytes

void
packet_print(const struct packet *p, struct str *out)
{
    str_addf(out, "%s %u.%u", packet_name(p->kind), p->epoch, p->seq);
#define PACKET(NAME, name)
#define FIELD(NAME, TYPE, field)                                                                                       \
    if (p->kind == PACKET_##NAME) print_##TYPE(#field, p->field, out);
#include "actors/cluster/wire/wire.def"
#undef PACKET
#undef FIELD
}
