/* show.c - public functions that draw layouts of tensors and moves between layouts. This file finds types and
 * layouts; boxing/ draws. */
#include "actors/session/core/face.h"
#include "actors/session/core/session.h"

#include "boxing/draw/show.h"
#include "boxing/draw/show_svg.h"

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

int
rille_show_move(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                const struct rille_layout *from, const struct rille_layout *to, int columns, bool color, char **out)
{
    TRY(face_session(s, __func__));
    TRY(face_given(out, "out", __func__));
    struct type type;
    struct str text = {0};
    TRY(face_type(dtype, ndim, shape, __func__, &type));
    TRY(face_move(s, &type, from, to, __func__));
    box_show_move_text(&type, (const struct layout *)from, (const struct layout *)to, columns, color, &text);
    *out = text.text;
    return 0;
}

int
rille_show_move_svg(struct rille_session *s, const char *dtype, int ndim, const int64_t *shape,
                    const struct rille_layout *from, const struct rille_layout *to, char **out)
{
    TRY(face_session(s, __func__));
    TRY(face_given(out, "out", __func__));
    struct type type;
    struct str text = {0};
    TRY(face_type(dtype, ndim, shape, __func__, &type));
    TRY(face_move(s, &type, from, to, __func__));
    box_show_move_svg(&type, (const struct layout *)from, (const struct layout *)to, &text);
    *out = text.text;
    return 0;
}
