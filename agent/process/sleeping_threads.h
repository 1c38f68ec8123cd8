// Threads of LibTorch that wait for the rest of a step soon sleep, and leave the processor to others.
#pragma once

namespace starling {

// libgomp lets them spin unless its environment says otherwise, and reads that before main. Beside another agent they
// spin on the cores that the others need. Where they sleep at once, an agent alone loses a third of its steps, because
// sections of a step are as short as waking a thread. So this starts the program again, as the same process, with a
// GOMP_SPINCOUNT of some ten microseconds. It returns if that or OMP_WAIT_POLICY is set, or if it cannot. Call it from
// .preinit_array, with the loader's arguments: the constructors of all libraries come later, and take a hundred times
// as long as loading. Figures: tools/experiments/threads.
void restart_with_sleeping_threads(int argc, char** argv, char** environment);

}  // namespace starling
