// Stands in for the CUDA toolkit's header of this name, the part of cuda_pipeline.h that is C.
#include "cuda_pipeline.h"
