/* alphabet.c - converts text in which each visible character stands for a byte, as in byte-level vocabularies, to
 * bytes (GPT-2's table). */
#include "runtime/text/characters/alphabet.h"

enum { FIRST_OTHER = 256, NOTHERS = 68 };

static bool
is_itself(int byte)
{
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

/* Returns the k-th byte that is not a visible character of Latin-1: 0 .. 32, 127 .. 160, 173. It is spelled as
 * character U+0100 + k. */
static int
byte_symbol(int k)
{
    return k <= 32 ? k : k <= 66 ? k - 33 + 127 : 173;
}

static int
code_point(int byte)
{
    if (is_itself(byte)) return byte;
    return FIRST_OTHER + (byte <= 32 ? byte : byte <= 160 ? byte - 127 + 33 : 67);
}

bool
alphabet_read(const char *text, size_t length, uint8_t *out, size_t *n)
{
    const uint8_t *p = (const uint8_t *)text, *end = p + length;
    for (*n = 0; p < end; ++*n) {
        int c = *p++;
        if (c >= 0xc2 && c <= 0xdf && p < end)
            c = (c & 0x1f) << 6 | (*p++ & 0x3f); /* reads the second byte of a UTF-8 character */
        else if (c >= 0x80)
            return false;
        if (c >= FIRST_OTHER ? c >= FIRST_OTHER + NOTHERS : !is_itself(c)) return false;
        out[*n] = (uint8_t)(c >= FIRST_OTHER ? byte_symbol(c - FIRST_OTHER) : c);
    }
    return true;
}

void
alphabet_write(const uint8_t *bytes, size_t n, struct str *out)
{
    for (size_t i = 0; i < n; i++) {
        int c = code_point(bytes[i]);
        if (c < 0x80)
            str_addn(out, &(char){(char)c}, 1);
        else
            str_addn(out, (char[]){(char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f))}, 2);
    }
}
