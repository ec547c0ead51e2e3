"""Block coordinate descent: by feature with incremental inference, and by row from margins."""
