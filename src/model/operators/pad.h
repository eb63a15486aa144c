/* SPDX-License-Identifier: MIT */
/* Rules of operators that pad or crop tensors. */
#ifndef MODEL_OPERATORS_PAD_H
#define MODEL_OPERATORS_PAD_H

#include "model/record.h"

compute_status pad_rule(model_call *call);
compute_status center_crop_pad_rule(model_call *call);
compute_status column_to_image_rule(model_call *call);

#endif
