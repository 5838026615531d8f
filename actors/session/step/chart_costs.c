/* chart_costs.c - checks costs that the user gives for a chart or a schedule search. */
#include "actors/session/step/chart_costs.h"
#include "runtime/base/error.h"

int
chart_costs_check(const struct rille_chart_costs *k)
{
    const double of[] = {k->forward, k->backward, k->weight, k->move, k->update};
    for (size_t i = 0; i < countof(of); i++)
        if (!(of[i] >= 0 && of[i] < 1e6))
            return fail(E_ARG, "chart: a cost must be from 0 to a million seconds, found %g", of[i]);
    if (!(k->jitter >= 0 && k->jitter <= 1))
        return fail(E_ARG, "chart: jitter must be from 0 to 1, found %g", k->jitter);
    return 0;
}

int
schedule_search_costs_of(const struct rille_chart_costs *k, struct schedule_search_costs *out)
{
    TRY(chart_costs_check(k));
    if (k->forward < 1e-9) return fail(E_ARG, "graph: a schedule for given costs needs the seconds of forward");
    *out = (struct schedule_search_costs){1e9 * k->forward, 1e9 * k->backward, 1e9 * k->weight, 1e9 * k->move, false};
    return 0;
}
