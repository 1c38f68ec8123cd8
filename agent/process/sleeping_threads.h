// Threads of LibTorch that wait for the rest of a step soon sleep, and leave the processor to others.
#pragma once

namespace starling {

// libgomp lets them spin unless its environment says otherwise, and reads that before main: on a machine with another
// agent they spin on the cores that the others need, and 243 steps a second become 35. Where they sleep at once, an
// agent alone makes two thirds of its steps, because sections of a step are as short as waking a thread. So this starts
// the program again, as the same process, with a GOMP_SPINCOUNT of some ten microseconds, and returns if that or
// OMP_WAIT_POLICY is set, or it cannot. To be called from .preinit_array, with what the loader passes there: before the
// constructors of all libraries, which take a hundred times as long as loading. Figures: tools/experiments/threads.
void restart_with_sleeping_threads(int argc, char** argv, char** environment);

}  // namespace starling
