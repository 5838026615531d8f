/* schedule_family.c - the table of named schedules.
 *
 * interleaved: Narayanan et al. 2021. zb-v, v-half, v-min: Qi et al. 2024. With zb-v, a device holds 2 p contexts
 * (p: number of devices), as many as with 1F1B if devices have two stages. */
#include "actors/plan/sim/schedule_family.h"

#include <string.h>

static int32_t
contexts_interleaved(int32_t p, int32_t v, int32_t lane)
{
    return 2 * (p - 1 - lane) + (v - 1) * p + 1;
}

static int32_t
contexts_zb_v(int32_t p, int32_t v, int32_t lane)
{
    (void)v, (void)lane;
    return 2 * p;
}

static int32_t
contexts_v_half(int32_t p, int32_t v, int32_t lane)
{
    (void)v, (void)lane;
    return p + 2;
}

static int32_t
contexts_v_min(int32_t p, int32_t v, int32_t lane)
{
    (void)v, (void)lane;
    return 2 * (p / 3) + 2 + (p % 3 == 2 ? 2 : 0);
}

static const struct schedule_search_costs alike = {.forward = 1e6, .backward = 1e6, .weight = 1e6},
                                          joint = {.forward = 1e6, .backward = 2e6};

static const struct schedule_family families[] = {
    {"interleaved", .dealing = DEALT_ROUND_ROBIN, .rounds = true, .contexts = contexts_interleaved, .costs = &joint},
    {"zb-v", .dealing = DEALT_THERE_AND_BACK, .contexts = contexts_zb_v, .costs = &alike},
    {"v-half", .dealing = DEALT_THERE_AND_BACK, .contexts = contexts_v_half, .costs = &alike},
    {"v-min", .dealing = DEALT_THERE_AND_BACK, .contexts = contexts_v_min, .costs = &alike},
    {"auto", .dealing = DEALT_ANYHOW},
    {"memory", .dealing = DEALT_ANYHOW, .hidden = true}, /* the entry for a memory limit without a named schedule */
};

const struct schedule_family *
schedule_family(const char *name)
{
    for (size_t i = 0; i < countof(families); i++)
        if (!strcmp(families[i].name, name)) return &families[i];
    return NULL;
}

const struct schedule_family *
schedule_family_at(int i)
{
    return i < (int)countof(families) && !families[i].hidden ? &families[i] : NULL;
}

int32_t
schedule_contexts(const char *name, int32_t p, int32_t v, int32_t lane)
{
    const struct schedule_family *f = schedule_family(name);
    return f && f->contexts ? f->contexts(p, v, lane) : 0;
}
