/* samples.h -- whether a difference belongs to whole samples: some of them are in
 * another order, repeated, or not those of the data.
 *
 * Sample i of the dump is sample j of the data where both samples of ours differ: there
 * the device has the elements of j.  At most 256 samples and elements of each are
 * looked at. */
#ifndef QG_ENGINE_DEVICE_SAMPLES_H
#define QG_ENGINE_DEVICE_SAMPLES_H

#include "engine/device/suspect.h"

/* Whether so much of it differs that it can be a sample. */
bool qg_samples_suspicious(const qg_device *d, const qg_tally *t);

/* "sample 7 of the dump is sample 6 of the data", of a step's value; or that only some
 * samples differ.  step NULL: of input v of the network, which no step computes.  In
 * d->arena; *out NULL: neither. */
QG_NODISCARD qg_status qg_samples_study(const qg_device *d, const qg_device_step *step,
                                        const qg_value *v, const char **out);

#endif
