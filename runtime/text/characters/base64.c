/* base64.c - decodes base64. */
#include "runtime/text/characters/base64.h"

static int
base64_digit(uint8_t c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool
base64_read(const char *text, size_t n, uint8_t *out, size_t *bytes)
{
    size_t pad = n && text[n - 1] == '=' ? n > 1 && text[n - 2] == '=' ? 2 : 1 : 0;
    uint32_t group = 0;
    *bytes = 0;
    if (n == 0 || n % 4) return false;
    for (size_t i = 0; i < n; i++) {
        int d = i >= n - pad ? 0 : base64_digit((uint8_t)text[i]);
        if (d < 0) return false;
        group = group << 6 | (uint32_t)d;
        if (i % 4 != 3) continue;
        for (int k = 16; k >= 0; k -= 8) out[(*bytes)++] = (uint8_t)(group >> k);
        group = 0;
    }
    *bytes -= pad;
    return true;
}
