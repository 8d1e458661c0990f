// main.cc -- a C++ program: every header, and functions of both libraries.
#include <cstdio>
#include <memory>

#include <quantgraph/qg.h>
#include <quantgraph/qg_arrays.h>

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    qg_open_options o;
    qg_open_options_init(&o, sizeof o);
    o.config_dir = argv[1];
    qg_ctx *ctx = nullptr;
    if (qg_open(&o, &ctx) != QG_OK)
        return 1;
    std::unique_ptr<qg_ctx, decltype(&qg_close)> closing(ctx, qg_close);
    qg_report *report = nullptr;
    if (qg_list(ctx, "backends", &report) != QG_OK)
        return 1;
    std::unique_ptr<qg_report, decltype(&qg_report_free)> freeing(report, qg_report_free);
    std::printf("%s", qg_report_text(report));
    return qg_api_version() != QG_API_VERSION || qg_round_f32(QG_ROUND_HALF_EVEN, 2.5f) != 2;
}
