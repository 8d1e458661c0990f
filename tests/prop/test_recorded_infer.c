/* Which backend quantizes as a device does: what is given is what
 * tests/data/recorded/infer.txt has (tests/support/recorded_device.h). */
#include "tests/support/recorded_device.h"

int main(int argc, char **argv)
{
    static const device_suite suite = {
        "tests/data/recorded/infer.txt", DEVICE_INFER, 601, 14, 3, 2
    };
    return recorded_devices(&suite, argc, argv);
}
