// Stands in for CUDA's header of this name, which torch's headers include and use nothing of. See cuda_runtime_api.h.
#pragma once
