"""Forms in which texts of stores, databases and people hold a secret, for the tests of what is
shown.

Here: the texts. Not here: any assertion (`kernel.core.test_texts`, `cli.test_app`,
`dagster.adapter.test_alerts`).
"""

SECRET = "SIG-7f3a-SECRET"  # of nothing
FORMS = {
    "login": f"s3://KEY:{SECRET}@bucket/x/*.csv",
    "login by a path": f"s3:/KEY:{SECRET}@bucket/lake",
    "login with signs": f"postgresql://me:a/b#{SECRET}@host/db#t",
    "login that begins with digits": f"postgresql://me:12{SECRET}@host/db",
    "token alone": f"https://{SECRET}@github.example/x.git",
    "token of Spark": f"sc://host:443/;use_ssl=true;token={SECRET}",
    "signed address of Azure": f"https://a.blob.example/c/x/*.csv?sv=1&sig={SECRET}&se=2026",
    "signed address of AWS": f"https://b.s3.example/x?X-Amz-Credential=AKIA%2F2026&X-Amz-Signature={SECRET}",
    "session of AWS": f"https://b.s3.example/x?X-Amz-Security-Token={SECRET}",
    "signed address of GCS": f"https://storage.example/b/x?GoogleAccessId=a&Expires=1&Signature={SECRET}",
    "address of a function": f"https://f.azurewebsites.example/api/x?code={SECRET}",
    "SAS token": f"sv=2022-11-02&ss=b&srt=sco&sig={SECRET}",
    "connection string of Azure": f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET}==;Suffix=x",
    "connection string with a SAS": f"BlobEndpoint=https://a.example;SharedAccessSignature=sv=1&sig={SECRET}",
    "connection string of ODBC": f"Driver=x;Server=h;Uid=me;Pwd={SECRET};",
    "connection string of libpq": f"host=h user=me password='{SECRET}' dbname=d",
    "environment": f"AWS_SECRET_ACCESS_KEY={SECRET}",
    "environment of Azure": f"AZURE_STORAGE_ACCOUNT_KEY={SECRET}",
    "credentials file": f"aws_secret_access_key = {SECRET}",
    "TOML": f'password = "{SECRET}"',
    "JSON": f'{{"client_secret": "{SECRET}", "x": 1}}',
    "representation of Python": f"{{'token': '{SECRET}'}}",
    "header": f"Authorization: Bearer {SECRET}",
    "header of AWS": "Authorization: AWS4-HMAC-SHA256 Credential=AKIA/x, SignedHeaders=host, "
    f"Signature={SECRET}",
    "header of Azure": f"authorization: SharedKey account:{SECRET}",
    "representation of a header": f"{{'Authorization': 'Basic {SECRET}'}}",
    "bearer alone": f"the server refused Bearer {SECRET}",
    "webhook of Slack": f"https://hooks.slack.com/services/T000/B000/{SECRET}",
    "configuration of Spark": "fs.azure.account.key.a.dfs.core.windows.net: refused, "
    f"fs.s3a.secret.key={SECRET}",
}
