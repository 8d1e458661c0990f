/* Where a device differs, and why: what is given is what
 * tests/data/recorded/diverge.txt has (tests/support/recorded_device.h). */
#include "tests/support/recorded_device.h"

int main(int argc, char **argv)
{
    static const device_suite suite = {
        "tests/data/recorded/diverge.txt", DEVICE_DIVERGE, 1, 110, 20, 4
    };
    return recorded_devices(&suite, argc, argv);
}
