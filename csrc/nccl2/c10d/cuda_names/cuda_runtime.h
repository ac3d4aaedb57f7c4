// Stands in for CUDA's header of this name. See cuda_runtime_api.h.
#pragma once

#include "cuda_runtime_api.h"
