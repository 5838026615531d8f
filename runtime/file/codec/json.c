/* json.c - parses JSON strictly: rejects duplicate names, and names the file in error texts. */
#include "runtime/file/codec/json.h"

#include "runtime/base/error.h"
#include "runtime/file/disk/source.h"
#include "runtime/data/str.h"

#include <stdlib.h>

int
json_text(const char *file, const char *text, size_t n, json_t **out)
{
    json_error_t why;
    *out = json_loadb(text, n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (!*out) {
        struct str plain = {0};
        str_add_plain(&plain, why.text);
        int status = fail(E_IO, "%s: line %d is not JSON: %s", file, MAX(why.line, 1), str_text(&plain));
        str_free(&plain);
        return status;
    }
    if (json_is_object(*out)) return 0;
    json_decref(*out);
    *out = NULL;
    return fail(E_IO, "%s: expected a JSON object", file);
}

int
json_file(const char *path, int64_t most, json_t **out)
{
    char *text;
    size_t n;
    TRY(source_whole(path, most, &text, &n));
    int status = json_text(path, text, n, out);
    free(text);
    return status;
}

json_t *
json_numbers(const int64_t *v, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_integer(v[i]));
    return list;
}
