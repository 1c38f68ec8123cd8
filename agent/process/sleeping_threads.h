// Threads of LibTorch that wait for the rest of a step sleep, and leave the processor to others.
#pragma once

namespace starling {

// libgomp lets them spin unless its environment says otherwise, and reads that before main: on a machine with another
// agent they spin on the cores that the others need, and 151 steps a second become 9. So this starts the program again,
// as the same process, with OMP_WAIT_POLICY=passive, and returns if that or GOMP_SPINCOUNT is set, or it cannot. To be
// called from .preinit_array, with what the loader passes there: before the constructors of all libraries, which take
// a hundred times as long as loading.
void restart_with_sleeping_threads(int argc, char** argv, char** environment);

}  // namespace starling
