/* Which profile a device follows, and inputs that tell profiles apart: what is given is
 * what tests/data/recorded/fit.txt has (tests/support/recorded_device.h). */
#include "tests/support/recorded_device.h"

int main(int argc, char **argv)
{
    static const device_suite suite = {
        "tests/data/recorded/fit.txt", DEVICE_FIT, 301, 60, 10, 4
    };
    return recorded_devices(&suite, argc, argv);
}
