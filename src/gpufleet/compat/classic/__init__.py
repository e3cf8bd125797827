"""The classic migration analyzer: the seeds' names, configs and arithmetic; standard library alone."""

from gpufleet.compat.classic.analyzer import AWSGPUMigrationAnalyzer
from gpufleet.compat.classic.names import Goal, ModelSize, WorkloadType
from gpufleet.compat.classic.report import MigrationReport

__all__ = ["AWSGPUMigrationAnalyzer", "Goal", "MigrationReport", "ModelSize", "WorkloadType"]
