"""GPU migration analyzer: where GPU workloads on AWS could move, what that saves, and how risky it is.

python3 gpu_migration_analyzer.py                      the set basic_demos
python3 gpu_migration_analyzer.py inference_small_p5   one workload
python3 gpu_migration_analyzer.py --set performance_focus
python3 gpu_migration_analyzer.py --help

Needs nothing but Python 3.10 or later.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path[:0] = [str(folder) for folder in [Path(__file__).resolve().parent.parent / "src"] if folder.is_dir()]
if sys.version_info < (3, 10):  # noqa: UP036 (whoever runs this file may have any Python)
    sys.stderr.write(f"error: Python 3.10 or later is needed, found {sys.version_info[0]}.{sys.version_info[1]}\n")
    sys.exit(2)
if find_spec("gpufleet") is None:
    sys.stderr.write("error: the folder 'src' of the repository is missing beside this one; copy both of them\n")
    sys.exit(2)

from gpufleet.compat.classic import AWSGPUMigrationAnalyzer, Goal, MigrationReport, ModelSize, WorkloadType
from gpufleet.compat.classic.command import main

__all__ = ["AWSGPUMigrationAnalyzer", "Goal", "MigrationReport", "ModelSize", "WorkloadType"]

if __name__ == "__main__":
    sys.exit(main())
