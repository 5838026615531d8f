/* show.c - pictures of tensors' layouts, and of moves between two: boxing draws, this finds types and layouts. */
#include "actors/session/session.h"
#include "actors/session/face.h"

#include "boxing/show.h"

int
rille_tensor_show(struct rille_tensor *t, int columns, bool color, char **out)
{
    TRY(face_tensor(t, __func__));
    TRY(face_given(out, "out", __func__));
    struct str s = {0};
    box_show_text(&t->val->type, t->val->layout, columns, color, &s);
    *out = s.text;
    return 0;
}

int
rille_tensor_show_svg(struct rille_tensor *t, char **out)
{
    TRY(face_tensor(t, __func__));
    TRY(face_given(out, "out", __func__));
    struct str s = {0};
    box_show_svg(&t->val->type, t->val->layout, &s);
    *out = s.text;
    return 0;
}

/* A type that both layouts fit. */
static int
moved_type(const char *dtype, int ndim, const int64_t *shape, const struct layout *from, const struct layout *to,
           struct type *out)
{
    enum dtype d = dtype_parse(dtype);
    if (d == DT_NONE) return err_last();
    if (ndim < 0 || ndim > MAX_DIM) return fail(E_SHAPE, "show: at most %d dimensions, not %d", MAX_DIM, ndim);
    *out = type_of(d, ndim, shape);
    TRY(type_check(out));
    TRY(layout_fits(from, out));
    return layout_fits(to, out);
}

int
rille_show_move(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                const struct rille_layout *from, const struct rille_layout *to, int columns, bool color, char **out)
{
    TRY(face_session(s, __func__));
    TRY(face_given(dtype, "the dtype", __func__));
    TRY(face_shape(ndim, shape, __func__));
    TRY(face_layout(s, from, __func__));
    TRY(face_layout(s, to, __func__));
    TRY(face_given(out, "out", __func__));
    const struct layout *f = (const struct layout *)from, *g = (const struct layout *)to;
    struct type type;
    struct str text = {0};
    (void)s;
    TRY(moved_type(dtype, ndim, shape, f, g, &type));
    box_show_move_text(&type, f, g, columns, color, &text);
    *out = text.text;
    return 0;
}

int
rille_show_move_svg(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                    const struct rille_layout *from, const struct rille_layout *to, char **out)
{
    TRY(face_session(s, __func__));
    TRY(face_given(dtype, "the dtype", __func__));
    TRY(face_shape(ndim, shape, __func__));
    TRY(face_layout(s, from, __func__));
    TRY(face_layout(s, to, __func__));
    TRY(face_given(out, "out", __func__));
    const struct layout *f = (const struct layout *)from, *g = (const struct layout *)to;
    struct type type;
    struct str text = {0};
    (void)s;
    TRY(moved_type(dtype, ndim, shape, f, g, &type));
    box_show_move_svg(&type, f, g, &text);
    *out = text.text;
    return 0;
}
