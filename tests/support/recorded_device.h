/* recorded_device.h -- suites of recorded.h about the comparison with devices.  A
 * network is quantized once; each of its devices computes it by a profile, most often
 * another one or one with a planted kernel, sometimes quantized in another way, and its
 * dump differs in form (dumps.h). */
#ifndef QG_TESTS_SUPPORT_RECORDED_DEVICE_H
#define QG_TESTS_SUPPORT_RECORDED_DEVICE_H

typedef enum device_question {
    DEVICE_DIVERGE, /* and differences of two traces */
    DEVICE_FIT,     /* and probe */
    DEVICE_INFER
} device_question;

typedef struct device_suite {
    const char *path; /* of the recorded digests */
    device_question question;
    unsigned first;                   /* seed of networks */
    unsigned chains, random, devices; /* networks, and devices of each */
} device_suite;

/* What main returns. */
int recorded_devices(const device_suite *suite, int argc, char **argv);

#endif
